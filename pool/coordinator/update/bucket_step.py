"""The step of a bucket: from the gradients of its batches to its part of the next version of the weights (I3).

An optimizer of `pool.optim` adds the gradients up, steps and writes in one pass over memory (`FusedStep`). Any other
takes the complete gradient and changes the weights in place (`pool.coordinator.update.sum_then_step`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pool.coordinator.scheduler.actions import Reduce, Update
from pool.coordinator.update.parameter_part import ParameterPart
from pool.coordinator.update.stopwatch import Stopwatch
from pool.crash_points import crash_point
from pool.kernels.reduction import Addend
from pool.optim.buckets import BucketOptimizers

Scale = Callable[[int], float]  # from the number of batches in a sum to the factor that makes it the gradient


class BucketStep(Protocol):
    """Steps one bucket: `reduce` any number of times, then `update` once."""

    parts: Sequence[ParameterPart]

    def reduce(self, action: Reduce) -> None:
        """Adds up the contributions that are there already. Their memory is free afterwards."""

    def update(self, action: Update) -> None:
        """Adds up the remaining contributions, and writes the bucket's next version, unless that needs the gradients
        of all buckets."""


class FusedStep:
    """Adds the gradients up, steps the optimizer and writes the new version in one pass over memory.

    Only sums that are begun before all gradients are there are stored. Version `step`, which workers read, stays as it
    is.
    """

    def __init__(
        self,
        bucket: int,
        parts: Sequence[ParameterPart],
        optimizers: BucketOptimizers,
        scale: Scale,
        stopwatch: Stopwatch,
    ) -> None:
        self._bucket = bucket
        self.parts = parts
        self._optimizers = optimizers
        self._scale = scale
        self._stopwatch = stopwatch

    def reduce(self, action: Reduce) -> None:
        with self._stopwatch.reducing(action.step, action.bucket):
            crash_point("coordinator.before_fold")
            for part in self.parts:
                if action.is_first:
                    part.reset_sum()
                part.reduce(action.contributions, action.covered)

    def update(self, action: Update) -> None:
        with self._stopwatch.optimizing(action.step, action.bucket):
            crash_point("coordinator.before_fold")
            contributions = () if action.reduction is None else action.reduction.contributions
            if action.starts_sum:
                for part in self.parts:
                    part.reset_sum()
            gradients = [(part, part.collect_addends(contributions)) for part in self.parts]
            step_fused(self._optimizers, self._bucket, action.step, gradients, self._scale(action.num_batches))


BucketGradients = Sequence[tuple[ParameterPart, Sequence[Addend]]]  # all parts of a bucket, each with its gradients


def step_fused(optimizers: BucketOptimizers, bucket: int, step: int, gradients: BucketGradients, scale: float) -> None:
    """Writes version step + 1 of a bucket with the sums of the gradients, times `scale`, by an optimizer of
    `pool.optim`, which reads the gradients and the old version in the same pass."""
    for part, addends in gradients:
        part.prepare_step(step, addends)
    crash_point("coordinator.weights_caught_up")
    with optimizers.stepping(bucket) as optimizer:
        for part, addends in gradients:
            if addends:
                old, first_row = part.memory.weights(step), part.memory.first_row
                optimizer.reduce_and_step(part.parameter, old, addends, first_row=first_row, scale=scale)
    crash_point("coordinator.weights_folded")
    for part, _ in gradients:
        part.send_weights(step)
