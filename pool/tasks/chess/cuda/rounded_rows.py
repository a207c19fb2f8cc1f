"""Touched rows of a table, and its bias, as fake quantization has them in effect: kernels/rounded_rows.cu."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from pool.kernels.cuda.launcher import Extent, run
from pool.kernels.cuda.operation import operation
from pool.kernels.cuda.source import Source
from pool.kernels.cuda.sparse_sums import INDEX
from pool.kernels.cuda.structure import Float, UInt32, structure
from pool.tasks.chess.cuda.weights_in_effect import WAYS

Rule = tuple[float, str] | None  # scale and way of rounding; None: as it is


def in_effect(
    weight: Tensor, bias: Tensor | None, touched: Tensor, added: Tensor | None, rule: Rule, bias_rule: Rule
) -> tuple[Tensor, Tensor | None]:
    """Table and bias. Row f is rounded with row added[f] (int64) added to it; below 0: none; f itself: all zeros."""
    if rule is None and (bias is None or bias_rule is None):
        return weight, bias
    which = touched[:0] if rule is None else touched
    table, rounded = rounded_rows(weight, bias, which, added, *_numbers(rule), *_numbers(bias_rule))
    return weight if rule is None else table, None if bias is None else rounded


@operation()
def rounded_rows(
    weight: Tensor,
    bias: Tensor | None,
    touched: Tensor,
    added: Tensor | None,
    scale: float,
    way: int,
    bias_scale: float,
    bias_way: int,
) -> tuple[Tensor, Tensor]:
    """Memory of the table's shape with the touched rows in it, and the bias; empty if there is none."""
    out, bias_out = _empty(weight, bias)
    columns = weight.shape[1]
    run(
        weight.device,
        Source.of("rounded_rows.cu", BFLOAT16=0, WIDTH=1, INDEX=INDEX[touched.dtype]),
        "rounded_rows",
        Extent(len(touched) + (bias is not None), columns),
        weight, touched, added, bias, out, bias_out, _rule(scale, way), _rule(bias_scale, bias_way),
        len(touched), columns,
    )  # fmt: skip
    return out, bias_out


@rounded_rows.fake
def _(weight: Tensor, bias: Tensor | None, *_: object) -> tuple[Tensor, Tensor]:
    return _empty(weight, bias)


def _empty(weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    return torch.empty_like(weight), weight.new_empty(0) if bias is None else torch.empty_like(bias)


def _numbers(rule: Rule) -> tuple[float, int]:
    return (1.0, 0) if rule is None else (rule[0], WAYS.index(rule[1]))


def _rule(scale: float, way: int) -> ctypes.Structure:
    return structure(scale=(Float, [scale]), way=(UInt32, [way]))
