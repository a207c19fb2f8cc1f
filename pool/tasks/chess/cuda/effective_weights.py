"""Computes parameters as forward uses them ("in effect"). Dense weights get the part that all buckets share added and
are rounded under fake quantization, all in one launch (weights_in_effect.cu). Touched rows of a table (those that occur
in the batch) and its bias are rounded, to bfloat16 if wanted (rounded_rows.cu)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from pool._native import structure
from pool.kernels.cuda.compiler import Source
from pool.kernels.cuda.launcher import Extent, Float, Pointer, UInt32, run
from pool.kernels.cuda.sparse import INDEX

_WEIGHTS, _ROWS = (Path(__file__).with_name(name) for name in ("weights_in_effect.cu", "rounded_rows.cu"))
# Modes of rounding, numbered as in rounding.cuh; 0: not rounded.
ROUNDING_MODES = ("", "half to even", "half away from zero", "towards zero")
RowRounding = tuple[float, str] | None  # scale and rounding mode; None: not rounded


@dataclass(frozen=True, eq=False)
class ParameterTransform:
    """Describes how parameters change before forward uses them: each is rounded by its entry of `rules`, a scale and an
    index of `ROUNDING_MODES`, or none if there are no entries. Then the first is multiplied by `factor`."""

    factor: float = 1.0
    rules: tuple[tuple[float, int], ...] = ()


def apply_transform(
    transform: ParameterTransform, parameters: Sequence[Tensor], shared: Sequence[Tensor]
) -> list[Tensor]:
    """Computes the parameters as forward uses them: adds `shared` to the first of them, then rounds and multiplies all
    by `transform`. Returns a parameter that does not change as the same tensor."""
    plan = _plan_changes(transform, len(parameters), len(shared))
    effective = list(parameters)
    if not plan.indices:
        return effective
    weights = [parameters[i] for i in plan.indices]
    added = [shared[i] if i < len(shared) else None for i in plan.indices]
    changed = compute_effective_weights(weights, added, plan.scales, plan.modes, plan.factors)
    for i, weight in zip(plan.indices, changed, strict=True):
        effective[i] = weight
    return effective


class _ChangePlan(NamedTuple):
    """The indices of the parameters that change, and how each changes."""

    indices: Sequence[int]
    scales: Sequence[float]
    modes: Sequence[int]
    factors: Sequence[float]


@cache
def _plan_changes(transform: ParameterTransform, count: int, num_shared: int) -> _ChangePlan:
    """Selects the parameters that change, and collects the numbers of their changes. The first `num_shared` parameters
    have a shared part."""
    rules = transform.rules or ((1.0, 0),) * count
    factors = [transform.factor, *[1.0] * (count - 1)]
    indices = [i for i in range(count) if rules[i][1] or factors[i] != 1 or i < num_shared]
    scales, modes = [rules[i][0] for i in indices], [rules[i][1] for i in indices]
    return _ChangePlan(indices, scales, modes, [factors[i] for i in indices])


def compute_effective_weights(
    weights: Sequence[Tensor],
    shared: Sequence[Tensor | None],
    scales: Sequence[float],
    modes: Sequence[int],
    factors: Sequence[float],
) -> list[Tensor]:
    """Computes each weight [buckets, ...] with `shared` [...] added in every bucket, rounded, and multiplied by its
    factor. Returns new tensors."""
    out = [torch.empty_like(weight) for weight in weights]
    first = [0, *accumulate(weight.numel() for weight in weights)]
    run(
        weights[0].device,
        Source.of(_WEIGHTS, BFLOAT16=0, WIDTH=1, TENSORS=len(weights)),
        "weights_in_effect",
        Extent(first[-1], 1),
        structure(
            at=(Pointer, weights),
            shared=(Pointer, shared),
            out=(Pointer, out),
            period=(UInt32, [max(1, weight.numel() // weight.shape[0]) for weight in weights]),
            way=(UInt32, modes),
            scale=(Float, scales),
            factor=(Float, factors),
            first=(UInt32, first),
        ),
    )
    return out


def effective_rows(
    weight: Tensor,
    bias: Tensor | None,
    touched: Tensor,
    added: Tensor | None,
    rule: RowRounding,
    bias_rule: RowRounding,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor | None]:
    """Returns the table in `dtype` with its touched rows rounded, and the rounded bias. The other rows of a new table
    are not filled. Row f is rounded after row added[f] (int64) has been added to it. Where added[f] is below 0 nothing
    is added, and where it is f the row becomes all zeros."""
    keeps_table = rule is None and dtype == weight.dtype
    if keeps_table and (bias is None or bias_rule is None):
        return weight, bias
    rows = touched[:0] if keeps_table else touched
    table, rounded_bias = round_rows(
        weight, bias, rows, added, *_scale_and_mode(rule), *_scale_and_mode(bias_rule), dtype
    )
    return weight if keeps_table else table, None if bias is None else rounded_bias


def round_rows(
    weight: Tensor,
    bias: Tensor | None,
    touched: Tensor,
    added: Tensor | None,
    scale: float,
    mode: int,
    bias_scale: float,
    bias_mode: int,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Runs the kernel that rounds the touched rows and the bias. Returns memory of the table's shape and of `dtype`, in
    which only the touched rows are filled, and the bias (empty if there is none)."""
    out = torch.empty_like(weight, dtype=dtype)
    bias_out = weight.new_empty(0) if bias is None else torch.empty_like(bias)
    columns = weight.shape[1]
    run(
        weight.device,
        Source.of(_ROWS, BFLOAT16=int(dtype == torch.bfloat16), WIDTH=1, INDEX=INDEX[touched.dtype]),
        "rounded_rows",
        Extent(len(touched) + (bias is not None), columns),
        weight, touched, added, bias, out, bias_out, _pack_rounding(scale, mode), _pack_rounding(bias_scale, bias_mode),
        len(touched), columns,
    )  # fmt: skip
    return out, bias_out


def _scale_and_mode(rule: RowRounding) -> tuple[float, int]:
    return (1.0, 0) if rule is None else (rule[0], ROUNDING_MODES.index(rule[1]))


def _pack_rounding(scale: float, mode: int) -> bytes:
    return structure(scale=(Float, [scale]), way=(UInt32, [mode]))
