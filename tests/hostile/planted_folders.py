"""Attacks on the run folder: what somebody has planted there, what is moved, deleted or put in its place while a run is
in it, a disk that gets full, and records that are none.

A run ends with the undisturbed one's weights, or with one line and a documented exit code. Nothing is written through a
planted link, and nothing is left outside of the folder.
"""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.chaos.oracle import check_nothing_left_outside, left_outside
from tests.hostile.attack import assert_said_well
from tests.support.paths import ROOT
from tests.support.processes import roles
from tests.support.runs import TOY, Ended, command, pids_of, run, run_well, steps_done
from tests.support.wait import wait_for

NOBODY = 65_534
PRECIOUS = b"not the run's"
SETTINGS: dict[str, Any] = {
    **TOY,
    "train.steps": 30,
    "train.checkpoint_every": 7,
    "pool.snapshot_steps": 3,
    "pool.devices": ["fake:0?compute_ms=15", "fake:1?compute_ms=15"],
}
FILES = ("config.json", "status.json", "metrics.jsonl", "history.jsonl", "lock")
FOLDERS = ("logs", "checkpoints", "tensorboard", "poison", "trace")
INNER = (
    *(f"logs/{name}.log" for name in ("supervisor-0", "forkserver-0", "planner-0", "coordinator-0", "worker-1")),
    "checkpoints/last",
    "checkpoints/step-000000007",
    "checkpoints/step-000000007/state.json",
    "tensorboard/events.out.tfevents.1.a",
    "trace/worker-0-1.jsonl",
)


@lru_cache
def undisturbed() -> str:
    """The digest of a run in which nothing happens."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        return run_well(Path(folder) / "run", SETTINGS).digest()


def link_to_file(path: Path, elsewhere: Path) -> None:
    path.symlink_to(elsewhere / "file")


def link_to_folder(path: Path, elsewhere: Path) -> None:
    path.symlink_to(elsewhere)


def link_to_nothing(path: Path, elsewhere: Path) -> None:
    path.symlink_to(elsewhere / "nothing")


def link_to_device(path: Path, elsewhere: Path) -> None:  # noqa: ARG001
    path.symlink_to("/dev/full")


def pipe(path: Path, elsewhere: Path) -> None:  # noqa: ARG001
    os.mkfifo(path)


def file(path: Path, elsewhere: Path) -> None:  # noqa: ARG001
    path.write_bytes(PRECIOUS)


def full_folder(path: Path, elsewhere: Path) -> None:  # noqa: ARG001
    path.mkdir()
    (path / "file").write_bytes(PRECIOUS)


def open_folder(path: Path, elsewhere: Path) -> None:  # noqa: ARG001
    path.mkdir()
    path.chmod(0o777)


def somebodys_file(path: Path, elsewhere: Path) -> None:
    file(path, elsewhere)
    os.chown(path, NOBODY, NOBODY)


def somebodys_folder(path: Path, elsewhere: Path) -> None:
    full_folder(path, elsewhere)
    os.chown(path, NOBODY, NOBODY)


def bound_socket(path: Path, elsewhere: Path) -> None:  # noqa: ARG001
    place = os.open(path.parent, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(f"/proc/self/fd/{place}/{path.name}")
    os.close(place)


PLANTS: tuple[Callable[[Path, Path], None], ...] = (
    link_to_file,
    link_to_folder,
    link_to_nothing,
    link_to_device,
    pipe,
    file,
    full_folder,
    open_folder,
    somebodys_file,
    somebodys_folder,
    bound_socket,
)


@contextmanager
def guarded(folder: Path) -> Iterator[Path]:
    """A place whose content must stay as it is; and nothing may be left in the system's temporary folder."""
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_bytes(PRECIOUS)
    outside = left_outside()
    yield elsewhere
    assert [path.name for path in elsewhere.iterdir()] == ["file"], "something was made through a link"
    assert (elsewhere / "file").read_bytes() == PRECIOUS
    check_nothing_left_outside(outside)


def assert_same_or_refused(ended: Ended) -> None:
    assert_said_well(ended)
    if ended.code == 0:
        assert ended.digest() == undisturbed(), "other weights"


def planted_before(rng: random.Random, folder: Path) -> None:
    """One to three things where a run has its own, before it starts or is resumed."""
    place = folder / "run"
    place.mkdir(mode=0o700)
    with guarded(folder) as elsewhere:
        for name in rng.sample((*FILES, *FOLDERS, *INNER), rng.randint(1, 3)):
            with suppress(FileExistsError, NotADirectoryError, FileNotFoundError, IsADirectoryError):
                (place / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                rng.choice(PLANTS)(place / name, elsewhere)
        arguments = ["--resume"] * rng.randint(0, 1) + ["--trace", str(folder / "trace.json")] * rng.randint(0, 1)
        assert_same_or_refused(run(place, SETTINGS, *arguments))


def harmed_while_it_runs(rng: random.Random, folder: Path) -> None:
    """The folder or something in it is moved, deleted, or made something else; then processes are killed."""
    place = folder / "run"
    with guarded(folder) as elsewhere:
        process = subprocess.Popen(
            command(place, SETTINGS, *["--trace", str(folder / "trace.json")] * rng.randint(0, 1)),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            for _ in range(rng.randint(1, 2)):
                step = rng.randint(0, 25)
                wait_for(lambda: steps_done(place) >= step or process.poll() is not None, "some steps")  # noqa: B023
                if process.poll() is not None:
                    break  # what is deleted now is lost
                place = _harm(rng, place, elsewhere)
                for role in rng.sample(("worker", "feeder", "coordinator", "forkserver"), rng.randint(0, 3)):
                    for pid in [pid for pid, its in roles(process.pid).items() if its == role][:1]:
                        with suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
            out, err = process.communicate(timeout=100)
        finally:
            process.kill()
    ended = Ended(place, process.returncode, out, err)
    assert_same_or_refused(ended)
    if ended.code == 0:
        assert (place / "checkpoints/last/state.json").is_file()


def _harm(rng: random.Random, place: Path, elsewhere: Path) -> Path:
    """Where the run's folder is then."""
    kind = rng.choice(("move", "swap", "delete", "empty", "sub", "sub", "replace", "replace"))
    if not place.exists():  # the run's supervisor makes a deleted folder again when it looks; or the run has ended
        return place
    if kind in ("move", "swap"):
        moved = place.rename(place.with_name(f"moved-{rng.randrange(1 << 30)}"))
        if kind == "swap":
            rng.choice((link_to_folder, full_folder, file))(place, elsewhere)
        return moved
    if kind == "delete":
        shutil.rmtree(place, ignore_errors=True)
    for name in {"empty": (*FILES, *FOLDERS), "sub": (rng.choice(FOLDERS),)}.get(kind, ()):
        _remove(place / name)
    if kind == "replace":
        name = rng.choice((*FILES, *FOLDERS))
        _remove(place / name)
        with suppress(OSError):
            rng.choice(PLANTS)(place / name, elsewhere)
    return place


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def full_disk(rng: random.Random, folder: Path) -> None:
    """A disk on which some of what a run writes fits; a trace besides; then it is resumed where there is room."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    disk = folder / "disk"
    disk.mkdir()
    size = f"size={rng.randint(40, 1200)}k,nr_inodes={rng.choice((12, 20, 28, 1000))}".encode()
    if libc.mount(b"tmpfs", os.fsencode(disk), b"tmpfs", 0, size) != 0:
        return
    try:
        with guarded(folder):
            (disk / "ballast").write_bytes(bytes(rng.randint(0, 30_000)))
            place = disk / "run"
            config = command(folder / "run", SETTINGS, "--trace", str(disk / "trace.json"))
            words = [*config, "--set", f"run.dir={place}"]
            done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
            assert_same_or_refused(Ended(place, done.returncode, done.stdout, done.stderr))
            libc.mount(b"tmpfs", os.fsencode(disk), b"tmpfs", 32, b"size=64m,nr_inodes=10000")  # MS_REMOUNT
            done = subprocess.run(
                [*words, "--resume"], cwd=ROOT, capture_output=True, text=True, timeout=110, check=False
            )
            ended = Ended(place, done.returncode, done.stdout, done.stderr)
            assert_said_well(ended, codes=frozenset({0}))
            assert ended.digest() == undisturbed()
            assert (disk / "trace.json").is_file()
            wait_for(lambda: not pids_of(place), "processes gone", 10)
    finally:
        libc.umount2(os.fsencode(disk), 2)


def records_that_are_none(rng: random.Random, folder: Path) -> None:
    """Foreign lines between, behind and instead of a run's own; then it is resumed."""
    place = folder / "run"
    shortened = {**SETTINGS, "train.steps": rng.randint(8, 20)}
    run_well(place, shortened)
    path = place / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    garbage = (
        b"{}\n",
        b"5\n",
        b"\xff\xfe\n",
        b'{"step": "x"}\n',
        b"[" * 50_000 + b"\n",
        b"\0" * 5000,
        b"\n\n",
        b'{"st',
    )
    if rng.random() < 0.8:
        for _ in range(rng.randint(1, 4)):
            lines.insert(rng.randint(len(lines) // 2, len(lines)), rng.choice(garbage))
        path.write_bytes(b"".join(lines)[: rng.choice((None, -1, -9))])
    else:
        path.write_bytes(rng.randbytes(rng.randint(0, 300_000)))
    if rng.random() < 0.3:
        shutil.rmtree(place / "checkpoints")
    ended = run(place, SETTINGS, "--resume")
    assert_said_well(ended, codes=frozenset({0}))
    assert ended.digest() == undisturbed()


ATTACKS = (planted_before, harmed_while_it_runs, full_disk, records_that_are_none)
