"""The running average of weights: which versions are in it, and with which weight, in bits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from pool import _native
from pool.config.average import AverageConfig
from pool.coordinator.update.weight_average import WeightAverage
from pool.errors import CheckpointError

Floats = npt.NDArray[np.float32]


@pytest.mark.usefixtures("simd_level")
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 5000, 700_001])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_kernel_moves_each_number_by_a_share_of_the_difference(size: int, threads: int) -> None:
    rng = np.random.default_rng(size)
    average, weights = (rng.standard_normal(size).astype(np.float32) for _ in range(2))
    rate = np.float32(0.3)
    expected = average + rate * (weights - average)
    _native.add_to_average(average, weights, rate=0.3, threads=threads)
    assert average.tobytes() == expected.tobytes()


def test_the_kernel_refuses_what_is_not_of_one_size() -> None:
    with pytest.raises(ValueError, match="weights"):
        _native.add_to_average(np.zeros(4, np.float32), np.zeros(5, np.float32), rate=0.5)


def made(settings: dict[str, Any], place: Sequence[torch.Tensor]) -> WeightAverage:
    return WeightAverage(AverageConfig.model_validate(settings), ["weight", "buffer"], place, parameters=1)


def versions(count: int, dtype: torch.dtype = torch.float32) -> list[list[torch.Tensor]]:
    torch.manual_seed(1)
    return [[torch.randn(5, dtype=dtype), torch.tensor(v)] for v in range(count)]


def place(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [torch.full((5,), math.nan, dtype=dtype), torch.tensor(-1)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_ema_weighs_each_version_decay_times_the_next_and_the_weights_add_up_to_one(dtype: torch.dtype) -> None:
    decay, of = 0.9, versions(30, dtype)
    average = made({"kind": "ema", "decay": decay}, place(dtype))
    for version, tensors in enumerate(of):
        average.add_version(version, tensors)
    shares = [decay ** (29 - version) for version in range(1, 30)]  # not of what the run began with
    expected = sum(share * tensors[0].double() for share, tensors in zip(shares, of[1:], strict=True)) / sum(shares)
    found = average.named_tensors
    torch.testing.assert_close(found["weight"].double(), expected, rtol=1e-5, atol=1e-6)
    assert found["buffer"] == 29
    assert average.count == 29


def test_an_swa_is_the_mean_of_the_versions_that_are_due() -> None:
    of = versions(21)
    average = made({"kind": "swa", "start": 5, "every": 3}, place())
    for version, tensors in enumerate(of):
        average.add_version(version, tensors)
        assert bool(average.named_tensors) is (version >= 5)
    due = [5, 8, 11, 14, 17, 20]
    torch.testing.assert_close(average.named_tensors["weight"], torch.stack([of[v][0] for v in due]).mean(0))
    assert average.count == len(due)


def test_before_the_first_version_the_newest_weights_stand_for_the_average() -> None:
    (first, second, third), where = versions(3), place()
    average = made({"kind": "ema", "start": 2}, where)
    for tensors in (first, second):
        average.fill_if_empty(tensors)
        assert torch.equal(where[0], tensors[0])
        assert not average.named_tensors
    average.add_version(2, third)
    average.fill_if_empty(first)
    assert torch.equal(where[0], third[0])


def test_what_goes_on_from_what_was_saved_has_the_same_bits() -> None:
    of = versions(12)
    straight, first = (made({"kind": "ema", "decay": 0.7}, place()) for _ in range(2))
    for version, tensors in enumerate(of):
        straight.add_version(version, tensors)
    for version in range(7):
        first.add_version(version, of[version])
    second = made({"kind": "ema", "decay": 0.7}, place())
    second.restore(first.count, {name: tensor.clone() for name, tensor in first.named_tensors.items()})
    for version in range(7, 12):
        second.add_version(version, of[version])
    assert torch.equal(second.named_tensors["weight"], straight.named_tensors["weight"])


def test_an_average_of_another_model_is_refused_by_name() -> None:
    average = made({"kind": "ema"}, place())
    with pytest.raises(CheckpointError, match="not the model's: buffer: int64 scalar in the config's model, not in"):
        average.restore(1, {"weight": torch.zeros(5), "a": torch.tensor(0)})
    with pytest.raises(CheckpointError, match="weight: float32 5 in the config's model, float32 4 in the checkpoint"):
        average.restore(1, {"weight": torch.zeros(4), "buffer": torch.tensor(0)})
    average.restore(7, {})
    assert average.count == 0


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"decay": 0.5}, "train.average.decay: does nothing without train.average.kind"),
        ({"every": 2}, "train.average.every: does nothing without train.average.kind"),
        ({"kind": "swa", "decay": 0.5}, "train.average.decay: is of kind ema"),
        ({"kind": "swa", "start": 3}, ""),
        ({"kind": "ema", "decay": 0.0}, ""),
    ],
)
def test_keys_that_do_not_go_together_are_told(settings: dict[str, Any], problem: str) -> None:
    found = AverageConfig.model_validate(settings).problem
    assert found.startswith(problem)
    assert bool(found) is bool(problem)


@pytest.mark.parametrize(
    ("settings", "steps", "line"),
    [
        ({}, 3, None),
        ({"kind": "ema"}, 2, None),
        ({"kind": "swa", "start": 10, "every": 5}, 15, None),
        ({"kind": "ema", "start": 5000}, 4999, "train.average.start is 5,000 and train.steps 4,999: there will be no"),
        ({"kind": "swa", "every": 30}, 29, "train.average.every is 30 and train.steps 29: there will be no averaged"),
        ({"kind": "swa", "start": 10, "every": 5}, 14, "of step 10 alone: the next to be added are those of step 15"),
    ],
)
def test_an_average_that_lies_beyond_the_run_is_told(settings: dict[str, Any], steps: int, line: str | None) -> None:
    config = AverageConfig.model_validate(settings)
    added = sum(config.includes(version) for version in range(steps + 1))
    said = config.find_warning(steps)
    assert (said is None) == (line is None) == (config.kind is None or added > 1)
    assert (line or "") in (said or "")
