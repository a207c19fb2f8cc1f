"""All of a recipe at once through real processes: what is stopped in the middle goes on to the same bits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from loader import _native
from tests.support.paths import ROOT
from tests.support.runs import run_well

RECIPE = {
    "task": "perspective",
    "data.train": [str(ROOT / "configs/sample/train.binpack")],
    "data.validation": [str(ROOT / "configs/sample/validation.binpack")],
    "data.batch_size": 256,
    "data.chess.features": "chess768^",
    "data.chess.king_buckets": [0, 1, 2, 3] * 8,
    "data.chess.output_buckets": "material_count_8",
    "model.width": 16,
    "model.clip_weights": 0.2,
    "model.clip_tensors": {"l0w": 0.05},
    "model.fake_quantization": ["rows", "dense", "activations"],
    "loss.lambda_parts": [{"start": 1.0, "end": 0.5, "steps": 3}, {"start": 0.5}],
    "loss.weight_boost": 2.0,
    "loss.asymmetry": 0.1,
    "optimizer.name": "pool.optim.ClippedAdamW",
    "optimizer.args": {"lr": 0.01, "max_weight": 0.04},
    "train.steps": 6,
    "train.batches_per_step": 2,
    "train.checkpoint_every": 3,
    "pool.devices": ["cpu", "cpu"],
    "pool.threads": 1,
}


@pytest.mark.runs
def test_a_run_of_the_whole_recipe_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    whole = run_well(tmp_path / "whole", RECIPE)
    parts = tmp_path / "parts"
    run_well(parts, {**RECIPE, "train.steps": 3})
    resumed = run_well(parts, {**RECIPE, "pool.devices": ["cpu"]}, "--resume")
    assert resumed.digest() == whole.digest()
    weights = whole.weights()
    real = len(weights["l0.weight"]) - 768
    factoriser, behind = weights["l0.weight"][real:], weights["layers.0.weight"]
    assert factoriser.max() == behind.max() == np.float32(0.04)  # the optimizer's
    assert behind.min() == np.float32(-0.2)
    rows = _native.virtual_features("chess768", [0, 1, 2, 3] * 8).astype(np.int64)
    assert abs(weights["l0.weight"][:real] + weights["l0.weight"][rows]).max() <= 0.05 * (1 + 1e-6)
    state = json.loads((whole.dir / "config.json").read_text())
    assert {"start": 1.0, "end": 0.5, "steps": 3}.items() <= state["loss"]["lambda_parts"][0].items()
