"""Runs whose tensors are stepped with other arguments, and whose lambda moves along half a wave: the same bits, whoever
computes them and dies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.runs import STOCKFISH, TOY, WholeRun, copied, run, run_well

RECIPE: dict[str, Any] = {
    **STOCKFISH,
    "train.batches_per_step": 4,
    "train.checkpoint_every": 3,
    "optimizer.name": "pool.optim.AdamW",
    "optimizer.groups": [{"tensors": ["*bias"], "args": {"lr": 0.001, "weight_decay": 0.0}}],
    "loss.mate_base": 4000.0,
    "loss.lambda_parts": [{"start": 1.0, "end": 0.7, "curve": "cosine"}],
}
# A worker dies between two batches: each of four could die of the same one, which would be bad then.
KILLS = ["worker.after_finish@5=kill", "coordinator.before_commit@4=kill"]


@pytest.mark.parametrize("workers", [1, 4])
def test_the_bits_do_not_depend_on_workers_and_kills(workers: int, whole_run: WholeRun, tmp_path: Path) -> None:
    devices = [f"fake:{worker}" for worker in range(workers)]
    ended = run_well(tmp_path / "run", {**RECIPE, "pool.devices": devices, "testing.crash_points": KILLS})
    assert ended.digest() == whole_run(RECIPE).digest()


def test_a_run_that_goes_on_ends_with_the_same_bits(whole_run: WholeRun, tmp_path: Path) -> None:
    cut = copied(whole_run({**RECIPE, "train.steps": 3, "loss.lambda_parts": []}), tmp_path / "run")
    first = run_well(cut, {**RECIPE, "loss.lambda_parts": []}, "--resume")
    assert first.digest() == whole_run({**RECIPE, "loss.lambda_parts": []}).digest()
    refused = run(cut, {**RECIPE, "train.steps": 8, "optimizer.groups": []}, "--resume")
    assert (refused.code, "optimizer.groups" in refused.err) == (2, True), refused.err


def test_a_pattern_that_matches_nothing_ends_the_run_before_it_begins(tmp_path: Path) -> None:
    ended = run(tmp_path / "run", {**RECIPE, "optimizer.groups": [{"tensors": ["nosuch*"]}]})
    assert ended.code == 2
    assert "optimizer.groups.0.tensors: 'nosuch*' matches no tensor; there are " in ended.err


RANGER21 = {
    **TOY,
    "pool.bucket_mb": 1e-6,
    "pool.first_bucket_mb": 1e-6,
    "optimizer.name": "pytorch_optimizer.Ranger21",
    "optimizer.args.num_iterations": 50,
}


def test_numbers_that_a_class_adds_to_its_state_dict_outlast_kills_and_a_resume(
    whole_run: WholeRun, tmp_path: Path
) -> None:
    """Ranger21 counts up to its lookahead there."""
    whole = whole_run(RANGER21)
    kills = ["coordinator.before_commit@4=kill", "coordinator.before_commit@9=kill"]
    killed = run_well(tmp_path / "killed", {**RANGER21, "testing.crash_points": kills})
    assert killed.digest() == whole.digest()
    cut = copied(whole_run({**RANGER21, "train.steps": 7}), tmp_path / "cut")
    assert run_well(cut, RANGER21, "--resume").digest() == whole.digest()
