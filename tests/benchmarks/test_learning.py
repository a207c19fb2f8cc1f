"""The proof of learning in its short form: data, a network that the engine loads, two matches."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path

import pytest

from benchmarks import learning
from benchmarks.learning import FULL, QUICK, Game, Run, table
from tests.support.paths import ROOT

PAGE = ROOT / "docs/reference/chess-training.md"


@pytest.mark.runs
def test_data_are_made_once_and_the_networks_trained_on_them_play(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = shutil.which("stockfish") or shutil.which("stockfish", path="/usr/games")
    if engine is None:
        pytest.skip("needs the engine: apt-get install stockfish")
    monkeypatch.setattr(sys, "argv", ["learning", "--quick", "--engine", engine, "--folder", str(tmp_path)])
    learning.main()
    *shown, last = capfd.readouterr().out.splitlines()
    found = json.loads(last)
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.glob("*.binpack")}
    assert found["sha256"] == files
    assert len(files) == 2
    (run,) = [Run(**run) for run in found["runs"]]
    assert run.losses[-1] < run.losses[0]
    games = [Game(**game) for game in found["games"]]
    assert [game.wins + game.draws + game.losses for game in games] == [QUICK.games] * 2
    assert shown[-3:] == table(QUICK, [run], games).splitlines()
    again = learning.made(tmp_path, "train", QUICK.train, 1, Path("no engine is asked"))
    assert hashlib.sha256(again.read_bytes()).hexdigest() == files[again.name]


def test_the_documentation_has_a_row_of_each_seed() -> None:
    page = PAGE.read_text()
    last = FULL.positions(FULL.steps)
    assert f"after {FULL.positions(FULL.early):,} positions | {last:,} |" in page
    for seed in FULL.seeds:
        assert any(line.startswith(f"| {seed} | 0.") and line.count("+-") == 2 for line in page.splitlines())


def test_an_engine_that_is_missing_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["learning", "--engine", str(tmp_path / "none"), "--folder", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"none: no such program: apt-get install stockfish, or --engine PATH"):
        learning.main()
