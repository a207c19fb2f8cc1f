"""`-o -` in every command that has -o: standard output, or one line that says why not; never a file of that name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from loader.cli.main import PROGRAM as LOADER
from loader.cli.main import main as loader
from pool.commands.main import PROGRAM as POOL
from pool.commands.main import main as pool
from tests.pool.analysis.test_predict import saved
from tests.support.paths import ROOT
from tests.support.runs import elsewhere

SAMPLE = str(ROOT / "configs/sample/validation.binpack")
NET = {"task": "stockfish", "model": {"l1": 32}}
WRITES = {
    "pool configs": "demo",
    "pool export": "RUN",
    "pool watch": "RUN",
    "pool predict": f"RUN --data {SAMPLE}",
    "loader convert": SAMPLE,
    "loader head": SAMPLE,
    "loader filter": f"{SAMPLE} --skip-in-check",
    "loader sample": f"{SAMPLE} -n 5",
}
REFUSES = {
    "pool convert": "net.nnue",
    "pool rescore": f"net.nnue {SAMPLE}",
    "loader dedupe": SAMPLE,
    "loader shuffle": SAMPLE,
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


def words_of(command: str, arguments: str, output: str) -> list[str]:
    return [*command.split()[1:], *arguments.split(), "-o", output]


def main_of(command: str) -> Callable[[list[str]], int]:
    return pool if command.startswith("pool") else loader


@pytest.mark.parametrize("command", WRITES)
def test_what_can_go_to_standard_output_goes_there_and_nothing_else(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    saved(tmp_path / "RUN", NET)
    (tmp_path / "RUN/config.json").write_text("{}")
    words = [sys.executable, "-m", command.split()[0], *words_of(command, WRITES[command], "-")]
    done = subprocess.run(words, env=elsewhere(), capture_output=True, check=False, timeout=110)
    assert done.returncode == 0, done.stderr
    name = "out.binpack" if command.startswith("loader") else "out"
    assert main_of(command)(words_of(command, WRITES[command], name)) == 0
    assert done.stdout == (tmp_path / name).read_bytes() != b""
    assert {path.name for path in tmp_path.iterdir()} == {"RUN", name}


@pytest.mark.parametrize("command", REFUSES)
def test_what_must_be_a_file_says_so(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main_of(command)(words_of(command, REFUSES[command], "-")) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "-: " in said.err
    assert not list(tmp_path.iterdir())
