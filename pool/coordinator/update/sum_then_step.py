"""Steps buckets whose gradients are added up before the optimizer steps: for optimizers that take one gradient, as
torch's do, and for clipping. A bucket is parameters that are stepped together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from pool.coordinator.scheduler.actions import Reduce, Update
from pool.coordinator.update.bucket_step import BucketGradients, Scale, step_fused
from pool.coordinator.update.parameter_part import ParameterPart
from pool.coordinator.update.stopwatch import Stopwatch
from pool.crash_points import crash_point
from pool.kernels.norm import sum_of_all_squares
from pool.optim.buckets import BucketOptimizers
from pool.optim.native import NativeOptimizer


class SumThenStep:
    """Steps one bucket: adds up its gradients, clips them, then lets the optimizer step."""

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
        """Makes the step of bucket number `bucket`. `clip_value`: the largest magnitude of a number of the gradient,
        None: any. `waits`: if True, `update` only adds up, and `GlobalNormStep` clips and steps all buckets when the
        last one is added up."""
        self._bucket = bucket
        self.parts = parts
        self._optimizers = optimizers
        self._scale = scale
        self._stopwatch = stopwatch
        self._clip_value = clip_value
        self._waits = waits

    def reduce(self, action: Reduce) -> None:
        with self._stopwatch.reducing(action.step, self._bucket):
            crash_point("coordinator.before_fold")
            for part in self.parts:
                if action.is_first:
                    part.begin()
                if action.is_last:
                    part.reduce_all(action.contributions, self._scale(action.num_batches))
                else:
                    part.reduce(action.contributions, action.covered)

    def update(self, action: Update) -> None:
        if action.reduction is not None:
            self.reduce(action.reduction)
        elif action.starts_sum:
            for part in self.parts:
                part.begin()
        if not self._waits:
            with self._stopwatch.optimizing(action.step, self._bucket):
                self.clip()
                self.step(action.step)

    def clip(self) -> bool:
        """Clamps the gradient to -clip_value .. clip_value. Returns False if clip_value is not set."""
        if self._clip_value is None:
            return False
        for total in self.totals:
            total.clamp_(-self._clip_value, self._clip_value)
        return True

    def step(self, step: int) -> None:
        """Steps the optimizer with the gradient as it is now."""
        gradients = [(part, part.sum) for part in self.parts]
        if isinstance(self._optimizers.of(self._bucket), NativeOptimizer):
            step_fused(self._optimizers, self._bucket, step, gradients, 1.0)
        else:
            step_in_place(self._optimizers, self._bucket, step, gradients)

    @property
    def totals(self) -> list[torch.Tensor]:
        """The gradients of those parts of parameters that have one."""
        return [part.total for part in self.parts if part.total is not None]


class GlobalNormStep:
    """Steps all buckets at once, for optimizers or clipping that need the norm of the whole gradient. It is the end of
    the step, when all buckets are added up.

    The norm's bits depend on the plan alone, not on threads or devices: the squares of each part are added up in a
    fixed order, and the sums of the parts exactly.
    """

    def __init__(
        self, limit: float | None, buckets: Sequence[SumThenStep], optimizers: Sequence[Any], size: int
    ) -> None:
        """Makes the common step of `buckets`. `limit`: the largest norm of the gradient (train.clip_norm), None for
        any. As in torch.nn.utils.clip_grad_norm_, the whole gradient is scaled by limit / (norm + 1e-6), never up.
        `optimizers`: of the buckets. `size`: how many numbers the gradient has."""
        self._limit = limit
        self._buckets = buckets
        self._told = [each for each in optimizers if isinstance(each, NativeOptimizer) and each.whole_norm]
        self._size = size

    def step(self, step: int) -> None:
        """Clips and steps all buckets. All of them must be added up."""
        totals = [total for bucket in self._buckets for total in bucket.totals]
        squares = None if self._limit is None else _scale_down(totals, self._limit)
        clipped = [bucket.clip() for bucket in self._buckets]
        if squares is None or (self._told and any(clipped)):
            squares = sum_of_all_squares(totals)
        for optimizer in self._told:
            optimizer.take_norm(squares, self._size)
        for bucket in self._buckets:
            bucket.step(step)


def _scale_down(totals: Sequence[torch.Tensor], limit: float) -> float:
    """Scales gradients so that their common norm is at most `limit`. Returns the square of the norm that they have
    then."""
    squares = sum_of_all_squares(totals)
    factor = limit / (math.sqrt(squares) + 1e-6)
    if factor < 1.0:
        squares *= factor * factor
        for total in totals:
            total.mul_(factor)
    return squares


def step_in_place(optimizers: BucketOptimizers, bucket: int, step: int, gradients: BucketGradients) -> None:
    """Makes version step + 1 of a bucket with an optimizer that changes weights in place, such as torch's. `gradients`:
    at most one for each part, added up and scaled."""
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
