"""Chooses how each bucket is stepped: once, when the plan is known."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from pool.config.tree import Config
from pool.coordinator.update.applying import OwnOptimizer, TorchOptimizer
from pool.coordinator.update.changed_rows import Changes
from pool.coordinator.update.clip_norm import ClipNorm, WithWholeGradient
from pool.coordinator.update.copy_over import CarryOver, StepsInPlace, WritesAll, WritesTouchedRows
from pool.coordinator.update.one_pass import OnePass
from pool.coordinator.update.parameter_part import Piece
from pool.coordinator.update.stepping import Scale, Stepping
from pool.coordinator.update.sum_then_step import SumThenStep
from pool.coordinator.update.timing import Timing
from pool.exchange.interface import CoordinatorExchange, PieceMemory
from pool.exchange.plan import Plan
from pool.optim.buckets import BucketOptimizers
from pool.optim.native import NativeOptimizer
from pool.shm.memory_map import SNAPSHOTS


@dataclass(frozen=True)
class Steppings:
    buckets: list[Stepping]  # by number
    pieces: list[Piece]  # of all buckets
    clip_norm: ClipNorm | None  # ends each step, if there is one
    changes: Changes  # which rows of tables the steps have changed


def choose(
    config: Config, plan: Plan, optimizers: BucketOptimizers, exchange: CoordinatorExchange, timing: Timing
) -> Steppings:
    """Chooses the way in which each bucket is stepped."""
    train, scale = config.train, _scale(config)
    changes = _changes(plan, optimizers)
    pieces = [_pieces(b, plan, optimizers, exchange, changes) for b in range(len(plan.buckets))]
    buckets: list[Stepping] = []
    summed: list[SumThenStep] = []
    for b, members in enumerate(pieces):
        own = isinstance(optimizers.of(b), NativeOptimizer)
        apply = OwnOptimizer(b, optimizers) if own else TorchOptimizer(b, optimizers)
        if own and train.clip_norm is None and train.clip_value is None:
            buckets.append(OnePass(members, apply, scale, timing))
            continue
        summed.append(SumThenStep(b, members, apply, scale, timing, clip_value=train.clip_value))
        buckets.append(summed[-1] if train.clip_norm is None else WithWholeGradient(summed[-1]))
    clip_norm = None if train.clip_norm is None else ClipNorm(train.clip_norm, summed, exchange)
    return Steppings(buckets, [piece for members in pieces for piece in members], clip_norm, changes)


def _changes(plan: Plan, optimizers: BucketOptimizers) -> Changes:
    """For tables of which touched rows alone are written."""
    rows = {
        plan.parameters[index].name: plan.parameters[index].shape[0]
        for b, bucket in enumerate(plan.buckets)
        for index in bucket.parameters
        if _writes_touched_rows(optimizers, b) and plan.parameters[index].sparse_field is not None
    }
    return Changes(rows, len(SNAPSHOTS))


def _pieces(
    b: int, plan: Plan, optimizers: BucketOptimizers, exchange: CoordinatorExchange, changes: Changes
) -> list[Piece]:
    def made(index: int, parameter: nn.Parameter) -> Piece:
        memory = exchange.piece(plan.buckets[b], index)
        return Piece(index, parameter, memory, carry_over(memory, plan.parameters[index].name, parameter))

    def carry_over(memory: PieceMemory, name: str, parameter: nn.Parameter) -> CarryOver:
        if _writes_touched_rows(optimizers, b) and memory.is_table:
            return WritesTouchedRows(memory, len(parameter), changes.of(name))
        return WritesAll(memory) if isinstance(optimizers.of(b), NativeOptimizer) else StepsInPlace(memory)

    members = zip(plan.buckets[b].parameters, optimizers.parameters[b], strict=True)
    return [made(index, parameter) for index, parameter in members]


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
