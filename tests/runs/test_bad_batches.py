"""Batches that are no good: nothing that is not finite reaches the weights, and nobody dies of one for ever."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from tests.support.runs import TOY, run, run_well
from tests.support.toy import LossConfig, ModelConfig
from tests.support.toy_model import ToyTask

# A worker's fault strikes in its first life only; one worker, so that it is known which batch it holds.
ONE = {**TOY, "pool.devices": ["fake:0"]}
NAN = {**TOY, "pool.devices": ["fake:0?nan=3"]}


def test_a_loss_that_is_not_finite_ends_the_run_and_names_batch_and_worker(tmp_path: Path) -> None:
    ended = run(tmp_path / "run", NAN)
    assert ended.code == 1
    assert len(ended.err.splitlines()) == 1
    assert "batch 6 of step 3: the loss is not finite (worker 0)" in ended.err
    assert 'train.on_bad_batch = "skip"' in ended.err
    kept = load_file(tmp_path / "run/poison/batch-6.safetensors")
    assert kept["features.offsets"].size == 64 + 1
    origin = json.loads((tmp_path / "run/poison/batch-6.json").read_text())
    assert origin["batch"] == origin["cursor"]["batch"] == 6
    assert origin["origin"] == {"num_features": 1000, "max_active": 8, "values": False, "seed": 42, "batch": 6}


def test_left_out_the_step_is_the_mean_of_the_others(tmp_path: Path) -> None:
    """With plain SGD and one step: what is left is a step of the other batch alone."""
    settings = {**TOY, "optimizer.name": "torch.optim.SGD", "train.on_bad_batch": "skip", "train.steps": 1}
    skipped = run_well(tmp_path / "skipped", {**settings, "pool.devices": ["fake:0?nan=0"]})
    assert [record["loss"] > 0 for record in skipped.metrics()] == [True]
    whole = run_well(tmp_path / "whole", {**settings, "pool.devices": ["fake:0"]})
    one = run_well(tmp_path / "one", {**settings, "train.batches_per_step": 1, "pool.devices": ["fake:0"]})
    torch.manual_seed(42)
    initial = ToyTask(ModelConfig(), LossConfig()).build_model().state_dict()
    # whole = initial - lr * (g0 + g1) / 2, one = initial - lr * g0, skipped = initial - lr * g1
    for name, array in skipped.weights().items():
        expected = 2 * whole.weights()[name] - one.weights()[name]
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-6, err_msg=name)
        assert not np.array_equal(array, initial[name].numpy())


def test_a_run_that_leaves_batches_out_ends_with_finite_weights_and_says_so(tmp_path: Path) -> None:
    ended = run_well(tmp_path / "run", {**NAN, "train.on_bad_batch": "skip"})
    assert all(np.isfinite(array).all() for array in ended.weights().values())
    assert "batch 6 of step 3: the loss is not finite" in (tmp_path / "run/logs/coordinator-0.log").read_text()


def test_an_infinite_weight_gradient_is_named_by_its_parameter(tmp_path: Path) -> None:
    """The loss is finite, its gradient is not: d sqrt(x) at 0."""
    ended = run(tmp_path / "run", {**ONE, "loss.infinite_gradient_of_batch": 5})
    assert ended.code == 1
    assert "batch 5 of step 2: " in ended.err
    assert "is not finite (worker 0)" in ended.err
    assert "the loss" not in ended.err


def test_a_batch_that_three_workers_die_of_is_kept_and_left_out(tmp_path: Path) -> None:
    settings = {**TOY, "model.deadly_batch": 5, "train.on_bad_batch": "skip"}
    ended = run_well(tmp_path / "run", settings)
    assert ended.out.count("was killed by SIGKILL, it was computing batch 5; restarted") == 3
    origin = json.loads((tmp_path / "run/poison/batch-5.json").read_text())
    assert origin["why"] == "3 workers died while they held it"


def test_a_batch_that_can_not_be_kept_is_left_out_all_the_same(tmp_path: Path) -> None:
    """A folder has the place of its file."""
    (tmp_path / "run/poison/batch-6.safetensors").mkdir(parents=True)
    for folder in (tmp_path / "run", tmp_path / "run/poison"):
        folder.chmod(0o700)
    ended = run_well(tmp_path / "run", {**NAN, "train.on_bad_batch": "skip"})
    assert "batch 6 of step 3: the loss is not finite (worker 0); it can't be kept: " in ended.out
    assert "/proc/" not in ended.out
    assert "coordinator" not in ended.out


ODD_ORIGIN = """
from loader.stream.synthetic import SyntheticSource

class Raises(SyntheticSource):
    def origin(self, config, files, seed, cursor):
        raise KeyError("where")

class NoPlainData(SyntheticSource):
    def origin(self, config, files, seed, cursor):
        return {"cursor": cursor}
"""


@pytest.mark.parametrize(("source", "unknown"), [("Raises", "KeyError: 'where' ("), ("NoPlainData", "TypeError: ")])
def test_a_source_that_can_not_say_where_a_bad_batch_comes_from_costs_only_that(
    source: str, unknown: str, tmp_path: Path
) -> None:
    (tmp_path / "odd_origin.py").write_text(ODD_ORIGIN, encoding="utf-8")
    settings = {**NAN, "train.on_bad_batch": "skip", "data.source": f"odd_origin:{source}"}
    ended = run(tmp_path / "run", settings, cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert "coordinator" not in ended.out
    kept = json.loads((tmp_path / "run/poison/batch-6.json").read_text())
    assert kept["origin"]["unknown"].startswith(unknown)
