"""Makes the objects that step a network's buckets. A bucket is parameters that are stepped together. How it is stepped
is decided once, when the plan is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pool.config.tree import Config
from pool.coordinator.update.bucket_step import BucketStep, FusedStep, Scale
from pool.coordinator.update.changed_rows import Changes
from pool.coordinator.update.parameter_part import ParameterPart
from pool.coordinator.update.stopwatch import Stopwatch
from pool.coordinator.update.sum_then_step import GlobalNormStep, SumThenStep
from pool.coordinator.update.unchanged_rows import CopyAllRows, CopyUntouchedRows, CopyWithoutGradient, UnchangedRows
from pool.exchange.interface import CoordinatorExchange
from pool.exchange.plan import Plan
from pool.optim.buckets import BucketOptimizers
from pool.optim.native import NativeOptimizer
from pool.shm.memory_map import SNAPSHOTS


@dataclass(frozen=True)
class BucketSteps:
    """The objects that step one member's buckets. A member is one network of an ensemble."""

    buckets: list[BucketStep]  # by number of the bucket
    parts: list[ParameterPart]  # of all buckets
    global_norm_step: GlobalNormStep | None  # steps all buckets at the end; None: each bucket is stepped by itself
    changes: Changes  # which rows of tables the steps have changed


def create_bucket_steps(
    config: Config, plan: Plan, optimizers: BucketOptimizers, exchange: CoordinatorExchange, stopwatch: Stopwatch
) -> BucketSteps:
    """Creates the objects that step a member's buckets: in one pass over memory where the optimizer is our own and
    nothing needs the complete gradient first, else with a stored sum."""
    train, scale = config.train, _scale(config)
    changes = _create_changes(plan, optimizers)
    bucket_optimizers = [optimizers.of(bucket) for bucket in range(len(plan.buckets))]
    waits_for_norm = train.clip_norm is not None or any(map(_needs_global_norm, bucket_optimizers))
    parts: list[ParameterPart] = []
    buckets: list[BucketStep] = []
    summed: list[SumThenStep] = []
    for bucket, optimizer in enumerate(bucket_optimizers):
        bucket_parts = _create_parts(bucket, plan, optimizers, exchange, changes)
        parts += bucket_parts
        if isinstance(optimizer, NativeOptimizer) and not waits_for_norm and train.clip_value is None:
            buckets.append(FusedStep(bucket, bucket_parts, optimizers, scale, stopwatch))
            continue
        step = SumThenStep(
            bucket,
            bucket_parts,
            optimizers,
            scale,
            stopwatch,
            clip_value=train.clip_value,
            waits_for_norm=waits_for_norm,
        )
        summed.append(step)
        buckets.append(step)
    global_norm_step = None
    if waits_for_norm:
        num_parameters = sum(math.prod(parameter.shape) for parameter in plan.parameters)
        global_norm_step = GlobalNormStep(train.clip_norm, summed, bucket_optimizers, num_parameters)
    return BucketSteps(buckets, parts, global_norm_step, changes)


def _needs_global_norm(optimizer: object) -> bool:
    return isinstance(optimizer, NativeOptimizer) and optimizer.needs_global_norm


def _create_changes(plan: Plan, optimizers: BucketOptimizers) -> Changes:
    """Creates the record of changed rows, for the tables whose optimizer writes touched rows alone."""
    num_rows: dict[str, int] = {}
    for number, bucket in enumerate(plan.buckets):
        if not _writes_touched_rows(optimizers, number):
            continue
        for index in bucket.parameters:
            parameter = plan.parameters[index]
            if parameter.sparse_field is not None:
                num_rows[parameter.name] = parameter.shape[0]
    return Changes(num_rows, len(SNAPSHOTS))


def _create_parts(
    number: int, plan: Plan, optimizers: BucketOptimizers, exchange: CoordinatorExchange, changes: Changes
) -> list[ParameterPart]:
    """Creates the parts of parameters that lie in bucket `number`, each with its memory and the object that copies its
    unchanged numbers."""
    bucket, parts = plan.buckets[number], []
    for index, parameter in zip(bucket.parameters, optimizers.parameters[number], strict=True):
        memory = exchange.shard(bucket, index)
        unchanged_rows: UnchangedRows
        if _writes_touched_rows(optimizers, number) and memory.is_table:
            table_changes = changes.of_table(plan.parameters[index].name)
            unchanged_rows = CopyUntouchedRows(memory, len(parameter), table_changes)
        elif isinstance(optimizers.of(number), NativeOptimizer):
            unchanged_rows = CopyWithoutGradient(memory)
        else:
            unchanged_rows = CopyAllRows(memory)
        parts.append(ParameterPart(index, parameter, memory, unchanged_rows))
    return parts


def _writes_touched_rows(optimizers: BucketOptimizers, bucket: int) -> bool:
    """Returns True if the optimizer of a bucket writes only rows of tables that have a gradient."""
    optimizer = optimizers.of(bucket)
    return isinstance(optimizer, NativeOptimizer) and optimizer.touched_only


def _scale(config: Config) -> Scale:
    """Returns the function that gives the factor for a step's sum of gradients, from the number of batches in the sum.
    The product is the mean over batches, or with `train.reduction = "sum"` the sum over samples."""

    def scale(batches: int) -> float:
        if config.train.reduction == "sum":
            return float(config.data.batch_size)
        return 1.0 / max(1, batches)

    return scale
