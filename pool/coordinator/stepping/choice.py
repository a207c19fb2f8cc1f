"""Chooses how each bucket is stepped: once, when the plan is known."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from pool.buckets.plan import Plan
from pool.config.tree import Config
from pool.coordinator.stepping.applying import OwnOptimizer, TorchOptimizer
from pool.coordinator.stepping.carrying import CarryOver, StepsInPlace, WritesAll, WritesTouchedRows
from pool.coordinator.stepping.clip_norm import ClipNorm, WithWholeGradient
from pool.coordinator.stepping.one_pass import OnePass
from pool.coordinator.stepping.piece import Piece
from pool.coordinator.stepping.stepping import Scale, Stepping
from pool.coordinator.stepping.sum_then_step import SumThenStep
from pool.coordinator.stepping.timing import Timing
from pool.exchange.interface import CoordinatorExchange, PieceMemory
from pool.optim.adam import Adam
from pool.optim.buckets import BucketOptimizers


@dataclass(frozen=True)
class Steppings:
    buckets: list[Stepping]  # by number
    pieces: list[Piece]  # of all buckets
    clip_norm: ClipNorm | None  # ends each step, if there is one


def choose(
    config: Config, plan: Plan, optimizers: BucketOptimizers, exchange: CoordinatorExchange, timing: Timing
) -> Steppings:
    """Those of all buckets."""
    train, scale = config.train, _scale(config)
    pieces = [_pieces(b, plan, optimizers, exchange) for b in range(len(plan.buckets))]
    buckets: list[Stepping] = []
    summed: list[SumThenStep] = []
    for b, members in enumerate(pieces):
        own = isinstance(optimizers.of(b), Adam)
        apply = OwnOptimizer(b, optimizers) if own else TorchOptimizer(b, optimizers)
        if own and train.clip_norm is None and train.clip_value is None:
            buckets.append(OnePass(members, apply, scale, timing))
            continue
        summed.append(SumThenStep(b, members, apply, scale, timing, clip_value=train.clip_value))
        buckets.append(summed[-1] if train.clip_norm is None else WithWholeGradient(summed[-1]))
    clip_norm = None if train.clip_norm is None else ClipNorm(train.clip_norm, summed, exchange)
    return Steppings(buckets, [piece for members in pieces for piece in members], clip_norm)


def _pieces(b: int, plan: Plan, optimizers: BucketOptimizers, exchange: CoordinatorExchange) -> list[Piece]:
    def made(index: int, parameter: nn.Parameter) -> Piece:
        memory = exchange.piece(plan.buckets[b], index)
        return Piece(index, parameter, memory, _carry_over(optimizers, b, memory))

    members = zip(plan.buckets[b].parameters, optimizers.parameters[b], strict=True)
    return [made(index, parameter) for index, parameter in members]


def _carry_over(optimizers: BucketOptimizers, b: int, memory: PieceMemory) -> CarryOver:
    optimizer = optimizers.of(b)
    if not isinstance(optimizer, Adam):
        return StepsInPlace()
    return WritesTouchedRows(memory.first_row) if optimizer.touched_only and memory.is_table else WritesAll()


def _scale(config: Config) -> Scale:
    """Of the sum of a step: a mean over batches, or over nothing."""

    def scale(batches: int) -> float:
        if config.train.reduction == "sum":
            return float(config.data.batch_size)
        return 1.0 / max(1, batches)

    return scale
