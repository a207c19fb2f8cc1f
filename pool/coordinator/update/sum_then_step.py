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
from pool.kernels.norm import squares_of_all
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
        waits_for_norm: bool,
    ) -> None:
        """Creates the step of bucket number `bucket`. `clip_value`: the largest magnitude of a number of the gradient,
        None: any. `waits_for_norm`: if True, `update` only adds up, and `GlobalNormStep` clips and steps all buckets
        when the last one is added up."""
        self._bucket = bucket
        self.parts = parts
        self._optimizers = optimizers
        self._scale = scale
        self._stopwatch = stopwatch
        self._clip_value = clip_value
        self._waits_for_norm = waits_for_norm

    def reduce(self, action: Reduce) -> None:
        with self._stopwatch.reducing(action.step, self._bucket):
            crash_point("coordinator.before_fold")
            for part in self.parts:
                if action.is_first:
                    part.reset_sum()
                if action.is_last:
                    part.reduce_all(action.contributions, self._scale(action.num_batches))
                else:
                    part.reduce(action.contributions, action.covered)

    def update(self, action: Update) -> None:
        if action.reduction is not None:
            self.reduce(action.reduction)
        elif action.starts_sum:
            for part in self.parts:
                part.reset_sum()
        if not self._waits_for_norm:
            with self._stopwatch.optimizing(action.step, self._bucket):
                self.clip()
                self.step(action.step)

    def clip(self) -> bool:
        """Clamps the gradient to -clip_value .. clip_value. Returns False if clip_value is not set."""
        if self._clip_value is None:
            return False
        for gradient in self.gradients:
            gradient.clamp_(-self._clip_value, self._clip_value)
        return True

    def step(self, step: int) -> None:
        """Steps the optimizer with the gradient as it is now."""
        gradients = [(part, part.total_addends) for part in self.parts]
        if isinstance(self._optimizers.of(self._bucket), NativeOptimizer):
            step_fused(self._optimizers, self._bucket, step, gradients, 1.0)
        else:
            step_in_place(self._optimizers, self._bucket, step, gradients)

    @property
    def gradients(self) -> list[torch.Tensor]:
        """The gradients of those parts of parameters that have one."""
        return [part.total for part in self.parts if part.total is not None]


class GlobalNormStep:
    """Steps all buckets at once, for optimizers or clipping that need the norm of all gradients together. This is the
    end of the step, when all buckets are added up.

    The norm's bits depend on the plan alone, not on threads or devices: the squares of each part are added up in a
    fixed order, and the sums of the parts exactly.
    """

    def __init__(
        self, max_norm: float | None, buckets: Sequence[SumThenStep], optimizers: Sequence[Any], num_parameters: int
    ) -> None:
        """Creates the common step of `buckets`. `max_norm`: the largest norm of the gradient (train.clip_norm), None
        for any. As in torch.nn.utils.clip_grad_norm_, the gradient is scaled by max_norm / (norm + 1e-6), never up.
        `optimizers`: of the buckets. `num_parameters`: how many numbers the gradient has."""
        self._max_norm = max_norm
        self._buckets = buckets
        self._norm_optimizers = [
            optimizer
            for optimizer in optimizers
            if isinstance(optimizer, NativeOptimizer) and optimizer.needs_global_norm
        ]
        self._num_parameters = num_parameters

    def step(self, step: int) -> None:
        """Clips and steps all buckets. All of them must be added up."""
        gradients = [gradient for bucket in self._buckets for gradient in bucket.gradients]
        squares = None if self._max_norm is None else _clip_norm(gradients, self._max_norm)
        clipped = [bucket.clip() for bucket in self._buckets]
        if squares is None or (self._norm_optimizers and any(clipped)):
            squares = squares_of_all(gradients)
        for optimizer in self._norm_optimizers:
            optimizer.set_global_norm(squares, self._num_parameters)
        for bucket in self._buckets:
            bucket.step(step)


def _clip_norm(gradients: Sequence[torch.Tensor], max_norm: float) -> float:
    """Scales gradients so that their common norm is at most `max_norm`. Returns the square of the norm that they have
    then."""
    squares = squares_of_all(gradients)
    factor = max_norm / (math.sqrt(squares) + 1e-6)
    if factor < 1.0:
        squares *= factor * factor
        for gradient in gradients:
            gradient.mul_(factor)
    return squares


def step_in_place(optimizers: BucketOptimizers, bucket: int, step: int, gradients: BucketGradients) -> None:
    """Writes version step + 1 of a bucket by an optimizer that changes weights in place, such as torch's. `gradients`:
    at most one for each part, added up and scaled."""
    for part, addends in gradients:
        assert len(addends) <= 1, "its gradient is added up before"
        part.prepare_step(step, addends)
        part.parameter.grad = addends[0].gradient if addends else None
    crash_point("coordinator.weights_copied")
    optimizers.step(bucket)
    crash_point("coordinator.weights_stepped")
    for part, _ in gradients:
        assert part.parameter.data_ptr() == part.memory.weights(step + 1).data_ptr(), "I3"
        part.send_weights(step)
