"""Clipping by the norm of the whole gradient: no bucket is stepped before all are summed, so the step ends with it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pool.coordinator.scheduler.actions import Fold, Update
from pool.coordinator.update.sum_then_step import SumThenStep
from pool.exchange.interface import CoordinatorExchange


class WithWholeGradient:
    """A Stepping that only adds up: `ClipNorm` steps all buckets when the last one is summed."""

    def __init__(self, inner: SumThenStep) -> None:
        self._inner = inner

    def fold(self, action: Fold) -> None:
        self._inner.fold(action)

    def update(self, action: Update) -> None:
        self._inner.add_up(action)


class ClipNorm:
    """Gradient clipping as torch.nn.utils.clip_grad_norm_ does it: the whole gradient is scaled by limit / (norm +
    1e-6), never up."""

    def __init__(self, limit: float, buckets: Sequence[SumThenStep], exchange: CoordinatorExchange) -> None:
        self._limit = limit
        self._buckets = buckets
        self._exchange = exchange

    def step(self, step: int) -> None:
        """All buckets are summed."""
        summed = set[int]().union(*(bucket.summed for bucket in self._buckets))
        self._clip([self._exchange.whole_sum(index) for index in sorted(summed)])
        for bucket in self._buckets:
            bucket.step(step)

    def _clip(self, gradient: Sequence[torch.Tensor]) -> None:
        if not gradient:
            return
        norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(total) for total in gradient]))
        factor = self._limit / (float(norm) + 1e-6)
        if factor < 1.0:
            for total in gradient:
                total.mul_(factor)
