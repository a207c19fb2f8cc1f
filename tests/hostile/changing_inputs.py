"""Files that change under a command of `loader`, at a random moment of its work.

Its result is that of the file as it was or as it is then, or one line that names the file and nothing else: never that
of two states of one file.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from loader.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from tests.hostile.attack import assert_said_well
from tests.support.paths import ROOT, VALIDATION
from tests.support.positions import SUFFIXES, encode, sample
from tests.support.runs import Ended

SECONDS = 100  # that a command may take on a busy machine
CODES = frozenset({EXIT_DONE, EXIT_FAILED, EXIT_USAGE})
OUT = "out"
COMMANDS: dict[str, tuple[str, ...]] = {
    "count": (),
    "verify": (),
    "dump": ("--limit", "30000"),
    "inspect": (),
    "convert": ("-o", OUT),
    "sample": ("-o", OUT, "-n", "500"),
    "filter": ("-o", OUT, "--where", "not in_check"),
    "dedupe": ("-o", OUT),
    "shuffle": ("-o", OUT),
    "split": ("--validation", "20%", "--by-record"),
}
Change = Callable[[Path, random.Random], None]


def append(file: Path, rng: random.Random) -> None:
    data = file.read_bytes()
    with file.open("ab") as out:
        out.write(data[: rng.choice((1, 40, 4000, len(data)))])


def cut(file: Path, rng: random.Random) -> None:
    os.truncate(file, rng.randrange(file.stat().st_size))


def zero(file: Path, rng: random.Random) -> None:
    with file.open("r+b") as out:
        out.seek(rng.randrange(file.stat().st_size))
        out.write(bytes(rng.choice((1, 40, 100_000))))


def replace(file: Path, rng: random.Random) -> None:
    beside = file.with_name("beside")
    beside.write_bytes(contents(rng.choice(("packedsfen", "text"))))
    beside.replace(file)


def remove(file: Path, rng: random.Random) -> None:  # noqa: ARG001
    file.unlink()


CHANGES: tuple[Change, ...] = (append, cut, zero, replace, remove)


@cache
def contents(name: str) -> bytes:
    return VALIDATION.read_bytes() * 4 if name == "binpack" else encode(name, sample(3000)) * 30


@dataclass(frozen=True)
class Result:
    """A command's end: what it has said and written."""

    code: int
    said: str
    written: tuple[tuple[str, bytes], ...]


def under_a_tool(rng: random.Random, folder: Path) -> None:
    """One change; the command is compared with one before and one after it."""
    name = rng.choice(("packedsfen", "text", "binpack"))
    command = rng.choice(list(COMMANDS))
    suffix = SUFFIXES.get(name, ".binpack")
    place = folder / "place"
    place.mkdir()
    file = place / f"in{suffix}"
    file.write_bytes(contents(name))
    began = time.monotonic()
    before = _result(place, _start(place, command, suffix), file)
    whole = time.monotonic() - began
    process = _start(place, command, suffix)
    try:
        process.wait(rng.uniform(0.2, 1) * whole)
    except subprocess.TimeoutExpired:
        rng.choice(CHANGES)(file, rng)
    changed = _result(place, process, file)
    if changed.code == 0:
        after = _result(place, _start(place, command, suffix), file) if file.exists() else before
        assert changed in (before, after), "neither the result of the old file nor that of the new one"
    else:
        assert file.name in changed.said, changed.said
        assert not changed.written, changed.written


def _start(place: Path, command: str, suffix: str) -> subprocess.Popen[str]:
    words = [word if word != OUT else f"{OUT}{suffix}" for word in COMMANDS[command]]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "loader", command, f"in{suffix}", *words],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _result(place: Path, process: subprocess.Popen[str], file: Path) -> Result:
    """Takes away what it has written."""
    try:
        out, err = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert_said_well(Ended(place, process.returncode, out, err if process.returncode else ""), codes=CODES)
    made = sorted(path for path in place.iterdir() if path not in (file, file.with_name("beside")))
    written = tuple((path.name, path.read_bytes()) for path in made)
    for path in made:
        path.unlink()
    return Result(process.returncode, re.sub(r" in \d+ s", "", out) if process.returncode == 0 else err, written)


ATTACKS = (under_a_tool,)
