"""A recipe of three stages, as plain data."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import SAMPLE


@pytest.fixture
def tree(tmp_path: Path) -> dict[str, Any]:
    for name in ("train", "validation"):
        shutil.copy(SAMPLE / f"{name}.binpack", tmp_path / f"{name}.binpack")
    return {
        "task": "stockfish",
        "run": {"dir": str(tmp_path / "runs")},
        "data": {
            "train": [str(tmp_path / "train.binpack")],
            "validation": [str(tmp_path / "validation.binpack")],
            "batch_size": 1024,
        },
        "model": {"l1": 32},
        "optimizer": {"args": {"lr": 1e-3}},
        "train": {"steps": 10},
        "stages": {"export": True},
        "stage": [
            {"name": "first", "train": {"average": {"kind": "swa", "start": 5}}},
            {"name": "second", "loss": {"lambda_start": 0.9, "lambda_end": 0.8}},
            {"name": "third", "start_with": "checkpoint", "train": {"steps": 20, "batches_per_step": 4}},
        ],
    }
