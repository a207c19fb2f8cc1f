"""`-o -` in every command that has -o: standard output, or one line that says why not; never a file of that name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer

from loader.cli.main import PROGRAM as LOADER
from pool.commands.main import PROGRAM as POOL
from tests.pool.analysis.test_predict import saved
from tests.support.paths import ROOT
from tests.support.runs import elsewhere

SAMPLE = str(ROOT / "configs/sample/validation.binpack")
NET = {"task": "stockfish", "model": {"l1": 32}}
WRITES = {
    "pool configs": "demo",
    "pool export": "RUN",
    "pool predict": f"RUN --data {SAMPLE}",
    "loader convert": SAMPLE,
    "loader cat": SAMPLE,
    "loader head": SAMPLE,
    "loader filter": f"{SAMPLE} --skip-in-check",
    "loader sample": f"{SAMPLE} -n 5",
}
REFUSES = {
    "pool convert": "net.nnue",
    "loader dedupe": SAMPLE,
    "loader shuffle": SAMPLE,
    "loader interleave": f"{SAMPLE}=1",
    "loader rescore": f"{SAMPLE} --engine nothing",
    "loader generate": "--engine nothing --positions 5",
}


def test_every_command_with_an_output_is_here() -> None:
    commands = (
        f"{program.name} {name}"
        for program in (POOL, LOADER)
        for name, command in typer.main.get_command(program.app()).commands.items()  # type: ignore[attr-defined]
        if any("-o" in parameter.opts for parameter in command.params)
    )
    assert set(commands) == WRITES.keys() | REFUSES.keys()


def called(command: str, arguments: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    words = [*command.split(), *arguments.split(), "-o", "-"]
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, env=elsewhere(), capture_output=True, check=False, timeout=110
    )


@pytest.mark.parametrize("command", WRITES)
def test_what_can_go_to_standard_output_goes_there_and_nothing_else(command: str, tmp_path: Path) -> None:
    saved(tmp_path / "RUN", NET)
    done = called(command, WRITES[command], tmp_path)
    assert done.returncode == 0, done.stderr
    name = "out.binpack" if command.startswith("loader") else "out"
    words = [*command.split(), *WRITES[command].split(), "-o", name]
    subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, env=elsewhere(), check=True, timeout=110)
    assert done.stdout == (tmp_path / name).read_bytes() != b""
    assert {path.name for path in tmp_path.iterdir()} == {"RUN", name}


@pytest.mark.parametrize("command", REFUSES)
def test_what_must_be_a_file_says_so(command: str, tmp_path: Path) -> None:
    done = called(command, REFUSES[command], tmp_path)
    assert (done.returncode, done.stdout) == (2, b""), done.stderr
    assert done.stderr.count(b"\n") == 1
    assert b"-: " in done.stderr
    assert not list(tmp_path.iterdir())
