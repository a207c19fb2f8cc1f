"""Weights as they are in effect, of all that need it in one launch: kernels/weights_in_effect.cu."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from pool.kernels.cuda.launcher import Extent, run
from pool.kernels.cuda.operation import operation
from pool.kernels.cuda.source import Source
from pool.kernels.cuda.structure import Float, Pointer, UInt32, structure

WAYS = ("", "half to even", "half away from zero", "towards zero")  # numbered as in kernels/rounding.cuh


@dataclass(frozen=True)
class InEffect:
    """Of parameters in their order: what is added to the first ones, `factor` for the first of all, and how each is
    rounded before that: scale and way of `WAYS`; none at all if there are no rules."""

    factor: float = 1.0
    rules: tuple[tuple[float, int], ...] = ()


def in_effect(changes: InEffect, parameters: Sequence[Tensor], shared: Sequence[Tensor]) -> list[Tensor]:
    """Those that nothing is done to are the same tensors."""
    rules = changes.rules or ((1.0, 0),) * len(parameters)
    factors = [changes.factor, *[1.0] * (len(parameters) - 1)]
    added = [*shared, *[None] * (len(parameters) - len(shared))]
    out = list(parameters)
    which = [i for i in range(len(out)) if rules[i][1] or factors[i] != 1 or added[i] is not None]
    if which:
        scales, ways = zip(*(rules[i] for i in which), strict=True)
        changed = weights_in_effect(
            [out[i] for i in which], [added[i] for i in which], scales, ways, [factors[i] for i in which]
        )
        for i, tensor in zip(which, changed, strict=True):
            out[i] = tensor
    return out


@operation()
def weights_in_effect(
    weights: Sequence[Tensor],
    shared: Sequence[Tensor | None],
    scales: Sequence[float],
    ways: Sequence[int],
    factors: Sequence[float],
) -> list[Tensor]:
    """Each [buckets, ...] with `shared` [...] added in each bucket, rounded, times its factor."""
    out = [torch.empty_like(weight) for weight in weights]
    first = [0, *accumulate(weight.numel() for weight in weights)]
    run(
        weights[0].device,
        Source.of("weights_in_effect.cu", BFLOAT16=0, WIDTH=1, TENSORS=len(weights)),
        "weights_in_effect",
        Extent(first[-1], 1),
        structure(
            at=(Pointer, weights),
            shared=(Pointer, shared),
            out=(Pointer, out),
            period=(UInt32, [max(1, weight[0].numel()) for weight in weights]),
            way=(UInt32, ways),
            scale=(Float, scales),
            factor=(Float, factors),
            first=(UInt32, first),
        ),
    )
    return out


@weights_in_effect.fake
def _(weights: Sequence[Tensor], *_: object) -> list[Tensor]:
    return [torch.empty_like(weight) for weight in weights]
