"""Runs on files that have shares: killed, resumed, and what they say of an epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loader.chess.positions.format import target_from_name
from loader.chess.positions.input import open_sources
from loader.chess.tools.convert import convert
from tests.support.paths import SAMPLE
from tests.support.runs import STOCKFISH, check, copied, run, run_well


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Three of the binpack sample for one of a compressed bulletformat file of it."""
    bullet = tmp_path_factory.mktemp("data") / "b.bf.zst"
    convert(open_sources([SAMPLE / "validation.binpack"]), target_from_name(bullet), bullet)
    return {
        **{key: value for key, value in STOCKFISH.items() if "skip_captures" not in key},
        "data.train": [{"files": STOCKFISH["data.train"], "share": 3}, {"files": str(bullet), "share": 1}],
        "data.threads": 2,
        "data.window_chunks": 2,
        "train.validate_every": 0,
    }


def test_deaths_and_a_resume_change_no_bit_and_other_shares_are_refused(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    whole = run_well(tmp_path / "whole", settings)
    assert "data.train: samples of an epoch, about: " in whole.out
    assert " of entry 1 (share 3, " in whole.out
    killed = {
        "testing.crash_points": [
            "feeder.batch_taken@2=kill",
            "worker.batch_computed@3=kill",
            "feeder.after_seek@2=kill",
        ]
    }
    half = run_well(tmp_path / "half", {**settings, **killed, "train.steps": 3, "data.threads": 1})
    other = [{**entry, "share": 1} for entry in settings["data.train"]]
    refused = run(copied(half, tmp_path / "other"), {**settings, "data.train": other}, "--resume")
    assert refused.code == 2
    assert "data.train: shares 1 (1 file), 1 (1 file) now, shares 3 (1 file), 1 (1 file) in " in refused.err
    plain = {**settings, "data.train": [*settings["data.train"][0]["files"], settings["data.train"][1]["files"]]}
    refused = run(copied(half, tmp_path / "plain"), plain, "--resume")
    assert "data.train: no shares now, shares 3 (1 file), 1 (1 file) in " in refused.err
    assert run_well(tmp_path / "half", settings, "--resume").digest() == whole.digest()


def test_the_page_says_how_much_an_epoch_has_of_each(settings: dict[str, Any], tmp_path: Path) -> None:
    checked = check(tmp_path / "run", settings)
    assert checked.code == 0, checked.err
    (line,) = [line for line in checked.out.splitlines() if line.startswith("mixture")]
    assert " of entry 1 (share 3, " in line
    assert " of entry 2 (share 1, " in line
