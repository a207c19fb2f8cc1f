"""Attacks on `loader generate`: killed at any moment, with engines that fail, and with foreign files in its way.

The oracle is the file of an undisturbed command: the same bytes, or one line.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.attack import assert_said_well
from tests.support.looked_into import verify
from tests.support.paths import ROOT
from tests.support.programs.scripted_engine import write_engine
from tests.support.runs import Ended, pids_of
from tests.support.wait import wait_for

POSITIONS = 400
KILLS = 3
SIGNALLED = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGKILL: -9}
GAMES = ("--max-ply", "24", "--random-plies", "4", "--win-plies", "0", "--draw-plies", "0")


@dataclass(frozen=True)
class Generating:
    """The command, with an engine in the same folder."""

    out: Path
    engine: Path
    append: bool = False

    def command(self, engines: int) -> list[str]:
        arguments = ["--engine", str(self.engine), "--positions", str(POSITIONS), "--engines", str(engines), *GAMES]
        append = ["--append"] if self.append else []
        return [sys.executable, "-m", "loader", "generate", "-o", str(self.out), *arguments, *append]

    def run(self, engines: int = 2) -> Ended:
        """To its end."""
        command = self.command(engines)
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
        return Ended(self.out.parent, done.returncode, done.stdout, done.stderr)

    def kill(self, rng: random.Random) -> Ended:
        """With a signal at a random moment: soon after the start, or after some more games."""
        size = self.part.stat().st_size if self.part.exists() else 0
        enough = size + rng.choice((0, 1, 200, 600))
        number = rng.choice(list(SIGNALLED))
        process = subprocess.Popen(
            self.command(rng.randint(1, 4)), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

        def is_time() -> bool:
            return process.poll() is not None or (self.part.exists() and self.part.stat().st_size >= enough)

        wait_for(is_time, "some games")
        threading.Event().wait(rng.choice((0.0, rng.random() / 10)))
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        if process.returncode not in (0, SIGNALLED[number], -number):  # -number: before its handlers were there
            raise AssertionError(f"exit code {process.returncode} after {number.name}\n{out}\n{err}")
        assert "Traceback" not in err or process.returncode == -number, err
        wait_for(lambda: not pids_of(self.out.parent), "engines gone", 10)
        return Ended(self.out.parent, process.returncode, out, err)

    @property
    def part(self) -> Path:
        return self.out.with_name(f"{self.out.name}.part")

    @property
    def journal(self) -> Path:
        return self.out.with_name(f"{self.out.name}.part.journal")


def prepare(rng: random.Random, folder: Path, *script: str) -> tuple[Generating, bytes]:
    """The command, and the bytes that it must end with; perhaps it appends."""
    undisturbed, disturbed = folder / "undisturbed", folder / "disturbed"
    append = rng.random() < 0.5
    for each in (undisturbed, disturbed):
        each.mkdir()
        write_engine(each / "engine", *script)
        if append:
            shutil.copy(ROOT / "configs/sample/validation.binpack", each / "x")
    shutil.copy(undisturbed / "engine", disturbed / "engine")
    first = Generating(undisturbed / "x", undisturbed / "engine", append)
    ended = first.run()
    assert ended.code == 0, ended.err
    return Generating(disturbed / "x", disturbed / "engine", append), first.out.read_bytes()


def assert_finished(generating: Generating, whole: bytes) -> None:
    assert generating.out.read_bytes() == whole
    left = sorted(path.name for path in generating.out.parent.iterdir())
    assert left == ["engine", "x"], left


def killed_again_and_again(rng: random.Random, folder: Path) -> None:
    """By any signal, with another number of engines each time; some games fail, always the same ones."""
    generating, whole = prepare(rng, folder, *rng.choice(((), ("refuses:20",))))
    before = generating.out.read_bytes() if generating.append else None
    for _ in range(KILLS):
        if generating.kill(rng).code == 0:
            break
        if not generating.part.exists() and generating.out.exists() and generating.out.read_bytes() == whole:
            break  # killed when all was done
        if generating.part.exists():
            verdict = verify(generating.part)
            assert verdict.ok or "cut at" in str(verdict.reason) or "truncated" in str(verdict.reason), verdict
        if generating.out.exists() and not generating.append:
            assert generating.out.read_bytes() == whole
        elif generating.out.exists() and before is not None:
            now = generating.out.read_bytes()
            assert now in (before, whole) or whole.startswith(now)
    else:
        ended = generating.run(rng.randint(1, 4))
        assert ended.code == 0, ended.err
    assert_finished(generating, whole)


def engines_that_fail_by_chance(rng: random.Random, folder: Path) -> None:
    """The file is whole; if no game had to be dropped it is that of an engine that never fails."""
    generating, whole = prepare(rng, folder)
    write_engine(folder / "chance", f"chance:{rng.randint(1, 3)}")
    shutil.copy(folder / "chance", generating.engine)
    before = verify(generating.out).entries if generating.append else 0
    ended = generating.run(rng.randint(1, 4))
    assert "Traceback" not in ended.err, ended.err
    if ended.code == 1:
        said = ended.err.splitlines()[-1]  # the games, or the first search, which is tried once
        assert "games in a row have failed" in said or "has ended with exit code 1" in said, ended.err
        return
    assert ended.code == 0, ended.err
    verdict = verify(generating.out)
    assert verdict.ok
    assert verdict.entries == before + POSITIONS
    if "dropped" not in ended.err:
        assert_finished(generating, whole)


def foreign_files_in_the_way(rng: random.Random, folder: Path) -> None:
    """FILE.part or its journal is changed, cut, replaced or planted; what is refused is left as it is."""
    generating, whole = prepare(rng, folder)
    precious = folder / "precious"
    precious.write_bytes(b"somebody's")
    if rng.random() < 0.8:
        generating.kill(rng)
    if not (generating.part.exists() and generating.journal.exists()):
        generating.part.write_bytes(rng.randbytes(50))
    target = rng.choice((generating.part, generating.journal))
    spoil(rng, target, precious)
    before = content(generating.out.parent)
    ended = generating.run(rng.randint(1, 4))
    assert_said_well(Ended(ended.dir, ended.code, ended.out, ended.err))
    assert precious.read_bytes() == b"somebody's"
    if ended.code == 0:
        assert generating.out.read_bytes() == whole
    else:
        assert content(generating.out.parent) == before


def spoil(rng: random.Random, path: Path, precious: Path) -> None:
    """One of the things that may have happened to a file."""
    old = path.read_bytes() if path.exists() else b""
    path.unlink(missing_ok=True)
    match rng.choice(("garbage", "cut", "flip", "longer", "empty", "gone", "folder", "link", "binpack")):
        case "garbage":
            path.write_bytes(rng.randbytes(rng.randint(1, 500)))
        case "cut":
            path.write_bytes(old[: rng.randint(0, len(old))])
        case "flip":
            at = rng.randrange(max(1, len(old)))
            path.write_bytes(old[:at] + bytes([rng.randrange(256)]) + old[at + 1 :])
        case "longer":
            path.write_bytes(old + rng.randbytes(rng.randint(1, 100)))
        case "empty":
            path.touch()
        case "folder":
            path.mkdir()
        case "link":
            path.symlink_to(precious)
        case "binpack":
            shutil.copy(ROOT / "configs/sample/validation.binpack", path)


def content(folder: Path) -> dict[str, bytes | str]:
    """All files of a folder that hold something, links and folders by what they are."""

    def of(path: Path) -> bytes | str:
        if path.is_symlink():
            return f"link to {path.readlink()}"
        return "folder" if path.is_dir() else path.read_bytes()

    return {path.name: found for path in folder.iterdir() if (found := of(path))}


ATTACKS = (killed_again_and_again, engines_that_fail_by_chance, foreign_files_in_the_way)
