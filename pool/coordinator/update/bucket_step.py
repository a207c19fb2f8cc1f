"""The step of a bucket: from the gradients of its batches to its part of the next version of the weights (I3).

An optimizer of `pool.optim` adds up, steps and writes in one pass over memory. Any other takes one whole gradient and
changes the weights in place, so the sum comes first; so it does for clipping. Which of both is chosen once, when the
plan is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

from pool.config.tree import Config
from pool.coordinator.scheduler.actions import Fold, Update
from pool.coordinator.update.changed_rows import Changes
from pool.coordinator.update.copy_over import CarryOver, StepsInPlace, WritesAll, WritesTouchedRows
from pool.coordinator.update.parameter_part import ParameterPart
from pool.coordinator.update.stopwatch import Stopwatch
from pool.crash_points import crash_point
from pool.exchange.interface import CoordinatorExchange, PieceMemory
from pool.exchange.plan import Plan
from pool.kernels.fold import Addend
from pool.kernels.norm import squares_of_all
from pool.optim.buckets import BucketOptimizers
from pool.optim.native import NativeOptimizer
from pool.shm.memory_map import SNAPSHOTS

Scale = Callable[[int], float]  # by how many batches are in the sum: what it is multiplied by


class BucketStep(Protocol):
    """The step of one bucket: any number of `fold`, then one `update`."""

    parts: Sequence[ParameterPart]

    def fold(self, action: Fold) -> None:
        """Adds up what is there early; nothing reads these contributions afterwards."""

    def update(self, action: Update) -> None:
        """Adds up the rest, and makes the bucket's next version unless that needs the gradients of other buckets."""


class OnePass:
    """Sum, optimizer and new version in one pass over memory. The sum is written nowhere, but for what has to be folded
    before the rest is there."""

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

    def fold(self, action: Fold) -> None:
        with self._stopwatch.reducing(action.step, action.bucket):
            crash_point("coordinator.before_fold")
            for part in self.parts:
                if action.first:
                    part.begin()
                part.fold(action.contributions, action.places)

    def update(self, action: Update) -> None:
        with self._stopwatch.optimizing(action.step, action.bucket):
            crash_point("coordinator.before_fold")
            rest = () if action.fold is None else action.fold.contributions
            for part in self.parts:
                if action.begins:
                    part.begin()
            gradients = [(part, part.gradients(rest)) for part in self.parts]
            step_own(self._optimizers, self._bucket, action.step, gradients, self._scale(action.batches))


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


BucketGradients = Sequence[tuple[ParameterPart, Sequence[Addend]]]  # all parts of a bucket, each with its gradients


def step_own(optimizers: BucketOptimizers, bucket: int, step: int, gradients: BucketGradients, scale: float) -> None:
    """Makes version step + 1 of a bucket with the sums of the gradients, times `scale`, by an optimizer of
    `pool.optim`: it reads the gradients and the old version, and writes the new one in the same pass."""
    for part, addends in gradients:
        part.next_version(step, addends)
    crash_point("coordinator.weights_caught_up")
    with optimizers.stepping(bucket) as optimizer:
        for part, addends in gradients:
            if addends:
                old, first_row = part.memory.weights(step), part.memory.first_row
                optimizer.fold_and_step(part.parameter, old, addends, first_row=first_row, scale=scale)
    crash_point("coordinator.weights_folded")
    for part, _ in gradients:
        part.give_out(step)


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


@dataclass(frozen=True)
class BucketSteps:
    """The steps of a member's buckets."""

    buckets: list[BucketStep]  # by number
    parts: list[ParameterPart]  # of all buckets
    whole: WholeStep | None  # ends each step, if there is one
    changes: Changes  # which rows of tables the steps have changed


def choose(
    config: Config, plan: Plan, optimizers: BucketOptimizers, exchange: CoordinatorExchange, stopwatch: Stopwatch
) -> BucketSteps:
    """Chooses the way in which each bucket is stepped."""
    train, scale = config.train, _scale(config)
    changes = _changes(plan, optimizers)
    parts = [_parts(b, plan, optimizers, exchange, changes) for b in range(len(plan.buckets))]
    buckets: list[BucketStep] = []
    summed: list[SumThenStep] = []
    made = [optimizers.of(b) for b in range(len(plan.buckets))]
    waits = train.clip_norm is not None or any(isinstance(each, NativeOptimizer) and each.whole_norm for each in made)
    for b, own in enumerate(parts):
        if isinstance(made[b], NativeOptimizer) and not waits and train.clip_value is None:
            buckets.append(OnePass(b, own, optimizers, scale, stopwatch))
            continue
        summed.append(SumThenStep(b, own, optimizers, scale, stopwatch, clip_value=train.clip_value, waits=waits))
        buckets.append(summed[-1])
    size = sum(math.prod(parameter.shape) for parameter in plan.parameters)
    whole = WholeStep(train.clip_norm, summed, made, size) if waits else None
    return BucketSteps(buckets, [part for own in parts for part in own], whole, changes)


def _changes(plan: Plan, optimizers: BucketOptimizers) -> Changes:
    """Makes the record of changed rows: of the tables whose optimizer writes touched rows alone."""
    rows = {
        plan.parameters[index].name: plan.parameters[index].shape[0]
        for b, bucket in enumerate(plan.buckets)
        for index in bucket.parameters
        if _writes_touched_rows(optimizers, b) and plan.parameters[index].sparse_field is not None
    }
    return Changes(rows, len(SNAPSHOTS))


def _parts(
    b: int, plan: Plan, optimizers: BucketOptimizers, exchange: CoordinatorExchange, changes: Changes
) -> list[ParameterPart]:
    def made(index: int, parameter: nn.Parameter) -> ParameterPart:
        memory = exchange.piece(plan.buckets[b], index)
        return ParameterPart(index, parameter, memory, carry_over(memory, plan.parameters[index].name, parameter))

    def carry_over(memory: PieceMemory, name: str, parameter: nn.Parameter) -> CarryOver:
        if _writes_touched_rows(optimizers, b) and memory.is_table:
            return WritesTouchedRows(memory, len(parameter), changes.of(name))
        return WritesAll(memory) if isinstance(optimizers.of(b), NativeOptimizer) else StepsInPlace(memory)

    parameters = zip(plan.buckets[b].parameters, optimizers.parameters[b], strict=True)
    return [made(index, parameter) for index, parameter in parameters]


def _writes_touched_rows(optimizers: BucketOptimizers, b: int) -> bool:
    optimizer = optimizers.of(b)
    return isinstance(optimizer, NativeOptimizer) and optimizer.touched_only


def _scale(config: Config) -> Scale:
    """Returns the scale of the sum of a step: a mean over batches, or over nothing."""

    def scale(batches: int) -> float:
        if config.train.reduction == "sum":
            return float(config.data.batch_size)
        return 1.0 / max(1, batches)

    return scale
