"""The norm that optimizers are told is that of the gradient they step with, however it is clipped."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pool.coordinator.update.sum_then_step import GlobalNormStep, SumThenStep
from pool.optim import RangerLite


class Bucket(SumThenStep):
    """Has a sum, and does not step it."""

    def __init__(self, total: torch.Tensor, clip_value: float | None) -> None:
        parts: Any = [SimpleNamespace(total=total)]
        nothing: Any = None
        super().__init__(0, parts, nothing, nothing, nothing, clip_value=clip_value, waits_for_norm=True)

    def step(self, step: int) -> None:
        pass


@pytest.mark.parametrize("limit", [None, 0.5, 1e9])
@pytest.mark.parametrize("clip_value", [None, 0.125])
def test_the_norm_that_optimizers_get_is_that_of_the_clipped_gradient(
    limit: float | None, clip_value: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    monkeypatch.setattr(RangerLite, "set_global_norm", lambda _, squares, size: told.append((squares, size)))
    totals = [torch.linspace(-1, 1, 7), torch.linspace(0, 2, 5)]
    clipped = torch.cat(totals).double()
    if limit is not None:
        clipped *= min(1.0, limit / float(clipped.norm()))
    if clip_value is not None:
        clipped.clamp_(-clip_value, clip_value)
    buckets = [Bucket(total, clip_value) for total in totals]
    GlobalNormStep(limit, buckets, [RangerLite([torch.nn.Parameter(total)]) for total in totals], 12).step(0)
    assert told == [(pytest.approx(float(clipped.square().sum()), rel=1e-5), 12)] * 2
