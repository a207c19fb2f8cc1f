"""Hyperparameters of `pool.optim` that make no sense are refused by name."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import nn

from pool.optim import FTRL, Adam, RowwiseAdagrad, SparseAdam

Make = type[Adam] | type[RowwiseAdagrad] | type[FTRL]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, 1e300, 10**400, "x", None, [0.1], ("a", "b")])
@pytest.mark.parametrize("make", [Adam, SparseAdam, RowwiseAdagrad, FTRL])
def test_one_that_is_no_number_in_range_is_named(make: Make, value: Any) -> None:
    signature = inspect.signature(make).parameters
    for key in signature.keys() - {"params", "decoupled_weight_decay"}:
        with pytest.raises(ValueError, match=f"^{key} must be |^{key} must not be negative"):
            make([nn.Parameter(torch.zeros(3))], **{key: value})


@pytest.mark.parametrize(("make", "key"), [(Adam, "eps"), (RowwiseAdagrad, "eps"), (FTRL, "lr"), (FTRL, "beta")])
def test_a_divisor_that_is_zero_as_a_float32_is_refused(make: Make, key: str) -> None:
    arguments: dict[str, Any] = {key: 1e-300}
    with pytest.raises(ValueError, match=f"{key} must be positive, not 1e-300; allowed: 1.18e-38 to 3.4e"):
        make([nn.Parameter(torch.zeros(3))], **arguments)
