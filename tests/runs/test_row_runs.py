"""Runs whose optimizer writes touched rows only: killed within a copy of changed rows, and resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.runs import TOY, run_well

SETTINGS: dict[str, Any] = {**TOY, "pool.bucket_mb": 0.01, "pool.snapshot_steps": 2, "model.num_features": 1000}


def test_a_coordinator_that_dies_within_a_copy_of_changed_rows_changes_nothing(tmp_path: Path) -> None:
    """Its successor copies all of them, since it knows of no earlier copy."""
    settings = {**SETTINGS, "optimizer.name": "pool.optim.RowwiseAdagrad"}
    point = "coordinator.mid_snapshot@4=kill"
    killed = run_well(tmp_path / "killed", {**settings, "testing.crash_points": [point]})
    assert "the run goes on from step" in killed.out
    assert killed.digest() == run_well(tmp_path / "undisturbed", settings).digest()


def test_a_resumed_run_has_the_bits_of_one_that_was_never_stopped(tmp_path: Path) -> None:
    settings = {**SETTINGS, "optimizer.name": "pool.optim.FTRL", "optimizer.args.l1": 1e-3}
    run_well(tmp_path / "run", {**settings, "train.steps": 5})
    resumed = run_well(tmp_path / "run", settings, "--resume")
    assert resumed.digest() == run_well(tmp_path / "whole", settings).digest()
    assert any((weights == 0).any() for weights in resumed.weights().values())
