"""A run on files with damage, with data.on_bad_data = "skip": what is left out is counted, and deaths change no bit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.loader.chess.positions.test_left_out import plies, written
from tests.support.runs import STOCKFISH, run_well

COUNTED = re.compile(r"training data: left out: damaged: ([\d,]+) positions in ([\d,]+) games?; the first: (.*)")


@pytest.mark.parametrize(("name", "ending"), [("viriformat", ".viri"), ("pgn", ".pgn")])
def test_a_run_says_how_much_it_left_out_and_deaths_change_nothing(name: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"bad{ending}"
    kept, lost = written(name, path, 1000, 25, seed=5)
    settings: dict[str, Any] = {
        **{key: value for key, value in STOCKFISH.items() if "filters" not in key},
        "data.train": [str(path)],
        "data.validation": [],
        "data.batch_size": len(plies(kept)),
        "data.on_bad_data": "skip",
        "train.validate_every": 0,
        "train.steps": 4,
    }
    whole = run_well(tmp_path / "whole", settings)
    found = [COUNTED.search(line) for line in whole.out.splitlines()]
    first, last = [each for each in found if each]
    assert int(last[2]) == 25
    if name == "viriformat":
        assert int(last[1]) == lost
    assert last[3].startswith(f"{path}: offset ")
    assert first[3].startswith(f"{path}: offset ")
    deaths = {"testing.crash_points": ["feeder.batch_taken@2=kill", "worker.batch_computed@3=kill"]}
    killed = run_well(tmp_path / "killed", {**settings, **deaths})
    assert killed.digest() == whole.digest()
    assert f"damaged: {last[1]} positions in 25 games" in killed.out
