"""The step of a bucket whose gradients are added up before its optimizer steps: for optimizers that take one gradient,
and for clipping."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from pool.coordinator.scheduler.actions import Fold, Update
from pool.coordinator.update.bucket_step import BucketGradients, Scale, step_own
from pool.coordinator.update.parameter_part import ParameterPart
from pool.coordinator.update.stopwatch import Stopwatch
from pool.crash_points import crash_point
from pool.kernels.norm import squares_of_all
from pool.optim.buckets import BucketOptimizers
from pool.optim.native import NativeOptimizer


class SumThenStep:
    """First the sum, then the optimizer: for optimizers that take one gradient, and for clipping."""

    def __init__(
        self,
        bucket: int,
        parts: Sequence[ParameterPart],
        optimizers: BucketOptimizers,
        scale: Scale,
        stopwatch: Stopwatch,
        *,
        clip_value: float | None,
        waits: bool,
    ) -> None:
        """`waits`: `update` only adds up, and `WholeStep` clips and steps all buckets when the last one is summed."""
        self._bucket = bucket
        self.parts = parts
        self._optimizers = optimizers
        self._scale = scale
        self._stopwatch = stopwatch
        self._clip_value = clip_value
        self._waits = waits

    def fold(self, action: Fold) -> None:
        with self._stopwatch.reducing(action.step, self._bucket):
            crash_point("coordinator.before_fold")
            for part in self.parts:
                if action.first:
                    part.begin()
                if action.last:
                    part.fold_all(action.contributions, self._scale(action.batches))
                else:
                    part.fold(action.contributions, action.places)

    def update(self, action: Update) -> None:
        if action.fold is not None:
            self.fold(action.fold)
        elif action.begins:
            for part in self.parts:
                part.begin()
        if not self._waits:
            with self._stopwatch.optimizing(action.step, self._bucket):
                self.clip()
                self.step(action.step)

    def clip(self) -> bool:
        """Clamps the sum to -clip_value .. clip_value; says whether that is set."""
        if self._clip_value is None:
            return False
        for total in self.totals:
            total.clamp_(-self._clip_value, self._clip_value)
        return True

    def step(self, step: int) -> None:
        """Steps the optimizer with the sum as it is."""
        gradients = [(part, part.sum) for part in self.parts]
        if isinstance(self._optimizers.of(self._bucket), NativeOptimizer):
            step_own(self._optimizers, self._bucket, step, gradients, 1.0)
        else:
            step_torch(self._optimizers, self._bucket, step, gradients)

    @property
    def totals(self) -> list[torch.Tensor]:
        """The sums of those parts that have a gradient."""
        return [part.total for part in self.parts if part.total is not None]


class WholeStep:
    """The step of all buckets at once, where it needs the norm of the whole gradient: no bucket is stepped before all
    are summed, and the step ends with it.

    The norm's bits depend on the plan alone, not on threads or devices: the squares of each part are added up in a
    fixed order, and the sums of the parts exactly.
    """

    def __init__(
        self, limit: float | None, buckets: Sequence[SumThenStep], optimizers: Sequence[Any], size: int
    ) -> None:
        """`limit`: of the norm (train.clip_norm), as torch.nn.utils.clip_grad_norm_ keeps it: the whole gradient is
        scaled by limit / (norm + 1e-6), never up. `optimizers`: of the buckets; `size`: numbers of the gradient."""
        self._limit = limit
        self._buckets = buckets
        self._told = [each for each in optimizers if isinstance(each, NativeOptimizer) and each.whole_norm]
        self._size = size

    def step(self, step: int) -> None:
        """Steps all buckets: all are summed."""
        totals = [total for bucket in self._buckets for total in bucket.totals]
        squares = None if self._limit is None else _scale_down(totals, self._limit)
        clipped = [bucket.clip() for bucket in self._buckets]
        if squares is None or (self._told and any(clipped)):
            squares = squares_of_all(totals)
        for optimizer in self._told:
            optimizer.take_norm(squares, self._size)
        for bucket in self._buckets:
            bucket.step(step)


def _scale_down(totals: Sequence[torch.Tensor], limit: float) -> float:
    """Scales to this norm what has a larger one; returns the squares, added up, that it has then."""
    squares = squares_of_all(totals)
    factor = limit / (math.sqrt(squares) + 1e-6)
    if factor < 1.0:
        squares *= factor * factor
        for total in totals:
            total.mul_(factor)
    return squares


def step_torch(optimizers: BucketOptimizers, bucket: int, step: int, gradients: BucketGradients) -> None:
    """Makes the same by any other optimizer: its gradients are added up and scaled before, and it changes the weights
    in place."""
    for part, addends in gradients:
        assert len(addends) <= 1, "its gradient is added up before"
        part.next_version(step, addends)
        part.parameter.grad = addends[0].gradient if addends else None
    crash_point("coordinator.weights_copied")
    optimizers.step(bucket)
    crash_point("coordinator.weights_stepped")
    for part, _ in gradients:
        assert part.parameter.data_ptr() == part.memory.weights(step + 1).data_ptr(), "I3"
        part.give_out(step)
