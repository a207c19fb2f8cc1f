"""Data files that change under a run, or between its stop and its resume.

Each attack does one thing to a file, or two, at a random moment, and may kill feeder or coordinator so that the data
are read again. The run must end with the weights of the undisturbed one, or with 65 and one line that names the file.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from loader.exit_codes import EXIT_DATA
from pool.protocol.identity import COORDINATOR, FEEDER
from tests.hostile.attack import assert_said_well
from tests.support.data.binpack_data import chunks, make_files, other_chunk
from tests.support.paths import ROOT
from tests.support.processes import role_pid
from tests.support.runs import Ended, command, run, run_well, steps_done
from tests.support.wait import wait_for

STEPS = 60
EPOCH = 3000 // 128  # steps, less what the filters take
SETTINGS: dict[str, Any] = {
    "task": "stockfish",
    "data.batch_size": 128,
    "data.window_chunks": 1,
    "data.threads": 1,
    "model.l1": 16,
    "optimizer.args.lr": 0.01,
    "train.steps": STEPS,
    "train.batches_per_step": 1,
    "train.checkpoint_every": 20,
    "pool.devices": ["fake:0?compute_ms=20"],
    "pool.ring_slots": 2,
    "pool.snapshot_steps": 7,
}
Change = Callable[[Path, random.Random], None]


# --- what is done to a file ---


def append(file: Path, rng: random.Random) -> None:
    with file.open("ab") as out:
        out.write(rng.choice(chunks(10))[: rng.choice((5, 100, 1 << 20))])


def touch(file: Path, rng: random.Random) -> None:  # noqa: ARG001
    file.touch()


def replace(file: Path, rng: random.Random) -> None:
    beside = file.with_name("beside")
    beside.write_bytes(b"".join(rng.sample(chunks(10), 5)))
    beside.replace(file)


def write_anew(file: Path, rng: random.Random) -> None:
    file.write_bytes(b"".join(rng.sample(chunks(10), 5)))


def cut_at_a_chunk(file: Path, rng: random.Random) -> None:
    os.truncate(file, sum(_sizes(file)[: rng.randrange(5)]))


def cut_anywhere(file: Path, rng: random.Random) -> None:
    os.truncate(file, rng.randrange(file.stat().st_size))


def overwrite_a_chunk(file: Path, rng: random.Random) -> None:
    """With a good one of the same length."""
    sizes = _sizes(file)
    number = rng.randrange(len(sizes))
    offset = sum(sizes[:number])
    with file.open("r+b") as out:
        out.seek(offset)
        changed = other_chunk(out.read(sizes[number]))
        out.seek(offset)
        out.write(changed)


def _sizes(file: Path) -> list[int]:
    data, sizes, offset = file.read_bytes(), [], 0
    while offset + 8 <= len(data):
        sizes.append(8 + int.from_bytes(data[offset + 4 : offset + 8], "little"))
        offset += sizes[-1]
    return sizes


CHANGES: tuple[Change, ...] = (
    append,
    touch,
    replace,
    write_anew,
    cut_at_a_chunk,
    cut_anywhere,
    overwrite_a_chunk,
)


# --- attacks ---


def under_a_run(rng: random.Random, folder: Path) -> None:
    """One change at a random step; then perhaps the feeder, or the coordinator, is killed."""
    files, settings = _prepared(rng, folder)
    process = _start(folder / "run", settings, rng.randrange(1, STEPS - 10))
    rng.choice(CHANGES)(rng.choice(files), rng)
    if (role := rng.choice((FEEDER, COORDINATOR, ""))) and process.poll() is None:
        _kill(role, process)
    _assert_same_or_refused(_end(process, folder / "run"), files)


def growing_under_a_run(rng: random.Random, folder: Path) -> None:
    """Files that are appended to all the time, as self-play does: with "ignore_new" nothing else is noticed."""
    files, settings = _prepared(rng, folder, growing="ignore_new")
    with files[1].open("ab") as out:
        out.write(chunks(10)[0][: rng.choice((3, 100))])  # a chunk that is being written when the run begins
    process = _start(folder / "run", settings, rng.randrange(1, 20))
    for step in sorted(rng.sample(range(20, STEPS - 5), 3)):
        append(rng.choice(files), rng)
        _wait_for_step(process, folder / "run", step)
        if process.poll() is None:
            _kill(rng.choice((FEEDER, COORDINATOR)), process)
    ended = _end(process, folder / "run")
    assert_said_well(ended, codes=frozenset({0}))
    assert ended.digest() == undisturbed()
    append(files[0], rng)
    longer = run(folder / "run", {**settings, "train.steps": STEPS + 1}, "--resume")
    assert_said_well(longer, codes=frozenset({0}))


def between_stop_and_resume(rng: random.Random, folder: Path) -> None:
    """After all of the data has been read once: what has not been read can only be compared by its size."""
    files, settings = _prepared(rng, folder)
    process = _start(folder / "run", settings, rng.randrange(EPOCH + 3, STEPS - 5))
    process.send_signal(signal.SIGTERM)
    if _end(process, folder / "run").code == 0:
        return  # it was done before the signal came
    rng.choice(CHANGES)(rng.choice(files), rng)
    _assert_same_or_refused(run(folder / "run", settings, "--resume"), files)


ATTACKS = (under_a_run, growing_under_a_run, between_stop_and_resume)


@cache
def undisturbed() -> str:
    """The digest of a run in which nothing happens."""
    with TemporaryDirectory(prefix="hostile-") as folder:
        files = make_files(Path(folder) / "data")
        return run_well(Path(folder) / "run", {**SETTINGS, "data.train": list(map(str, files))}).digest()


def _prepared(rng: random.Random, folder: Path, growing: str = "") -> tuple[list[Path], dict[str, Any]]:
    files = make_files(folder / "data")
    growing = growing or rng.choice(("stop", "ignore_new"))
    return files, {**SETTINGS, "data.train": list(map(str, files)), "data.growing": growing}


def _start(dir: Path, settings: dict[str, Any], step: int) -> subprocess.Popen[str]:
    """A run that has come to the step, or has ended."""
    process = subprocess.Popen(
        command(dir, settings), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    _wait_for_step(process, dir, step)
    return process


def _wait_for_step(process: subprocess.Popen[str], dir: Path, step: int) -> None:
    wait_for(lambda: steps_done(dir) >= step or process.poll() is not None, f"step {step}")


def _kill(role: str, process: subprocess.Popen[str]) -> None:
    try:
        os.kill(role_pid(role, process.pid), signal.SIGKILL)
    except (StopIteration, ProcessLookupError):  # it has died already
        return


def _end(process: subprocess.Popen[str], dir: Path) -> Ended:
    try:
        out, err = process.communicate(timeout=90)
    finally:
        process.kill()
    return Ended(dir, process.returncode, out, err)


def _assert_same_or_refused(ended: Ended, files: list[Path]) -> None:
    assert_said_well(ended, codes=frozenset({0, EXIT_DATA}))
    if ended.code == 0:
        assert ended.digest() == undisturbed(), "other weights, and not a word"
    else:
        assert any(str(file) in ended.err for file in files), ended.err
