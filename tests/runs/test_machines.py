"""Runs on several machines, each a supervisor of its own here: the weights are those of one machine (I2), whatever
dies (I9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.runs.test_clicks_runs import CLICKS
from tests.runs.test_drawn_numbers import DRAWING
from tests.support.runs import STOCKFISH, TOY, Ended, WholeRun, run_well

SMALL: dict[str, Any] = {**TOY, "train.steps": 8, "train.batches_per_step": 4, "pool.bucket_mb": 0.02}
TASKS: dict[str, tuple[int, dict[str, Any]]] = {
    "stockfish": (2, {**STOCKFISH, "train.batches_per_step": 4}),
    "clicks, SparseAdam": (2, {**CLICKS, "optimizer.name": "pool.optim.SparseAdam"}),
    "drawn numbers": (2, DRAWING),
    "torch's, clipped, of seven": (
        3,
        {**SMALL, "optimizer.name": "torch.optim.Adam", "train.clip_norm": 0.5, "train.batches_per_step": 7},
    ),
    "buffers, groups of two, of eight": (
        4,
        {
            **SMALL,
            "model.batch_norm": True,
            "model.dropout": 0.2,
            "train.batches_per_step": 8,
            "train.batches_per_group": 2,
            "pool.gradient_slots": 1,
        },
    ),
    "more machines than groups": (3, {**SMALL, "model.batch_norm": True, "train.batches_per_step": 2}),
    "members, rounded, averaged, validated": (
        2,
        {
            **SMALL,
            "ensemble.members": 2,
            "train.gradient_dtype": "bfloat16",
            "train.average.kind": "ema",
            "train.average.every": 2,
            "train.validate_every": 2,
            "train.checkpoint_every": 3,
        },
    ),
    "a batch that is not finite": (
        2,
        {**SMALL, "train.on_bad_batch": "skip", "loss.infinite_gradient_of_batch": 14, "train.batches_per_group": 2},
    ),
    "a batch to die of": (2, {**SMALL, "train.on_bad_batch": "skip", "model.deadly_batch": 12}),
}


def run_on(machines: int, dir: Path, settings: dict[str, Any], *arguments: str) -> list[Ended]:
    """Returns what each machine has left."""
    first = run_well(dir, settings, "--machines", str(machines), "--local", *arguments)
    others = [dir.with_name(f"{dir.name}-machine-{machine}") for machine in range(1, machines)]
    return [first, *(Ended(other, 0, "", "") for other in others)]


@pytest.mark.parametrize(("machines", "settings"), TASKS.values(), ids=TASKS)
def test_several_machines_end_with_the_bits_of_one(
    machines: int, settings: dict[str, Any], whole_run: WholeRun, tmp_path: Path
) -> None:
    one = whole_run(settings)
    for ended in run_on(machines, tmp_path / "run", settings):
        assert ended.digest() == one.digest()
