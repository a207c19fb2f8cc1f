"""Makes the objects that step a network's buckets. A bucket is parameters that are stepped together. How it is stepped
is decided once, when the plan is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import nn

from pool.config.tree import Config
from pool.coordinator.update.bucket_step import BucketStep, FusedStep, Scale
from pool.coordinator.update.changed_rows import Changes
from pool.coordinator.update.parameter_part import ParameterPart
from pool.coordinator.update.stopwatch import Stopwatch
from pool.coordinator.update.sum_then_step import GlobalNormStep, SumThenStep
from pool.coordinator.update.unchanged_rows import CopyAllRows, CopyUntouchedRows, CopyWithoutGradient, UnchangedRows
from pool.exchange.interface import CoordinatorExchange, ShardMemory
from pool.exchange.plan import Plan
from pool.optim.buckets import BucketOptimizers
from pool.optim.native import NativeOptimizer
from pool.shm.memory_map import SNAPSHOTS


@dataclass(frozen=True)
class BucketSteps:
    """The objects that step one member's buckets. A member is one network of an ensemble."""

    buckets: list[BucketStep]  # by number of the bucket
    parts: list[ParameterPart]  # of all buckets
    whole: GlobalNormStep | None  # steps all buckets at the end of each step; None: each bucket is stepped by itself
    changes: Changes  # which rows of tables the steps have changed


def choose_bucket_steps(
    config: Config, plan: Plan, optimizers: BucketOptimizers, exchange: CoordinatorExchange, stopwatch: Stopwatch
) -> BucketSteps:
    """Makes the objects that step a member's buckets: in one pass over memory where the optimizer is our own and
    nothing needs the whole gradient first, else sum by sum."""
    train, scale = config.train, _scale(config)
    changes = _changes(plan, optimizers)
    parts = [_parts(b, plan, optimizers, exchange, changes) for b in range(len(plan.buckets))]
    buckets: list[BucketStep] = []
    summed: list[SumThenStep] = []
    made = [optimizers.of(b) for b in range(len(plan.buckets))]
    waits = train.clip_norm is not None or any(isinstance(each, NativeOptimizer) and each.whole_norm for each in made)
    for b, own in enumerate(parts):
        if isinstance(made[b], NativeOptimizer) and not waits and train.clip_value is None:
            buckets.append(FusedStep(b, own, optimizers, scale, stopwatch))
            continue
        summed.append(SumThenStep(b, own, optimizers, scale, stopwatch, clip_value=train.clip_value, waits=waits))
        buckets.append(summed[-1])
    size = sum(math.prod(parameter.shape) for parameter in plan.parameters)
    whole = GlobalNormStep(train.clip_norm, summed, made, size) if waits else None
    return BucketSteps(buckets, [part for own in parts for part in own], whole, changes)


def _changes(plan: Plan, optimizers: BucketOptimizers) -> Changes:
    """Makes the record of changed rows, for the tables whose optimizer writes touched rows alone."""
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
    """Makes the parts of parameters that lie in bucket `b`, each with its memory and its way of copying unchanged
    numbers."""

    def made(index: int, parameter: nn.Parameter) -> ParameterPart:
        memory = exchange.shard(plan.buckets[b], index)
        return ParameterPart(index, parameter, memory, carry_over(memory, plan.parameters[index].name, parameter))

    def carry_over(memory: ShardMemory, name: str, parameter: nn.Parameter) -> UnchangedRows:
        if _writes_touched_rows(optimizers, b) and memory.is_table:
            return CopyUntouchedRows(memory, len(parameter), changes.of(name))
        return CopyWithoutGradient(memory) if isinstance(optimizers.of(b), NativeOptimizer) else CopyAllRows(memory)

    parameters = zip(plan.buckets[b].parameters, optimizers.parameters[b], strict=True)
    return [made(index, parameter) for index, parameter in parameters]


def _writes_touched_rows(optimizers: BucketOptimizers, b: int) -> bool:
    """True if the optimizer of bucket `b` writes only rows of tables that have a gradient."""
    optimizer = optimizers.of(b)
    return isinstance(optimizer, NativeOptimizer) and optimizer.touched_only


def _scale(config: Config) -> Scale:
    """Returns the function that gives the factor for a step's sum of gradients, from the number of batches in the sum.
    The product is the mean over batches, or with `train.reduction = "sum"` the sum over samples."""

    def scale(batches: int) -> float:
        if config.train.reduction == "sum":
            return float(config.data.batch_size)
        return 1.0 / max(1, batches)

    return scale
