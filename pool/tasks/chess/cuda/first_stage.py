"""Computes the first layer of a chess network together with what follows it, for both perspectives: sums of rows,
clipping, and products or squares. Kernels: first_stage.cu, first_stage_backward.cu.

It is an autograd function. The layer decides what becomes of the table's gradient, as it does without these kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pool.kernels.cuda.compiler import Source
from pool.kernels.cuda.launcher import Extent, run, width_of
from pool.kernels.cuda.sparse import ROWS, column_sums, sums_source
from pool.kernels.sparse import SparseInput, backend_for
from pool.nn.sparse_linear import SparseLinear

_FORWARD, _BACKWARD = (Path(__file__).with_name(name) for name in ("first_stage.cu", "first_stage_backward.cu"))


class Activation(IntEnum):
    """Activations of the clipped sums x [2 * samples, columns], own perspectives first."""

    PAIRWISE = 0  # first half times second: [samples, columns], own perspective's products first
    CRELU = 1  # x: [samples, 2 * columns]
    SCRELU = 2  # x squared: [samples, 2 * columns]


class Cut(NamedTuple):
    """The rounding down of pairwise products to the steps of integers. The gradient passes unchanged."""

    factor: float = 1.0  # products are multiplied by this before they are cut
    one: float = 0.0  # products are cut down to multiples of 1 / one; 0: not at all


NOT_CUT = Cut()


def supports(layer: SparseLinear, sparse: SparseInput) -> bool:
    """Returns whether `layer_first_stage` can compute this layer with these inputs: on a device with kernels, with a
    bias, without values of features."""
    if torch._C._are_functorch_transforms_active() or layer.bias is None or sparse.values is not None:
        return False
    return layer.gradient_sink is None and backend_for(layer.weight) == "cuda"


def layer_first_stage(
    layer: SparseLinear, sparse: SparseInput, highest: float, activation: Activation, cut: Cut = NOT_CUT
) -> Tensor:
    """Computes the layer's sums, clipped to 0 .. highest, and their activation. Products are cut as `cut` says. Returns
    [samples, width], where `activation` decides the width. The bags in `sparse` are all own perspectives, then all the
    opponents'."""
    assert layer.bias is not None

    def write(gradient: Tensor) -> Tensor | None:
        return layer.write_compact(sparse, gradient)

    table, bias = layer.effective_parameters(layer.weight, layer.bias, sparse)
    assert bias is not None
    lists = sparse.features, sparse.offsets
    return fused_first_stage(layer.weight, layer.bias, (table, bias), *lists, write, highest, activation, cut)


def first_stage(
    table: Tensor, bias: Tensor, numbers: Tensor, offsets: Tensor, highest: float, activation: int, cut: Cut
) -> tuple[Tensor, Tensor]:
    """Computes the sums of bias and `table`'s rows [rows, columns], clipped to 0 .. highest, and their activation.
    Returns the activation and the clipped sums, both in the dtype of the bias. Bags are as in `sum_lists`."""
    samples, columns = (offsets.shape[0] - 1) // 2, table.shape[1]
    width = _activations_per_side(columns, activation)
    clipped, out = bias.new_empty(2 * samples, columns), bias.new_empty(samples, 2 * width)
    constants = {"ACTIVATION": activation, "CUT": int(cut.one > 0)}
    source, wide = sums_source(_FORWARD, table, numbers.dtype, None, width, out, bias, **constants)
    extent = Extent(2 * samples, width // wide)
    run(
        table.device, source, "first_stage", extent,
        table, numbers, offsets, bias, clipped, out, float(highest), samples, columns, cut.factor, cut.one,
    )  # fmt: skip
    return out, clipped


def first_stage_backward(
    gradient: Tensor, clipped: Tensor, highest: float, activation: int, cut: Cut
) -> tuple[Tensor, Tensor]:
    """Computes the gradient of the sums [2 * samples, columns], and the sum of its rows [columns] in float32, which is
    the gradient of the bias. `clipped` are the clipped sums of the forward pass."""
    bags, columns = clipped.shape
    width = _activations_per_side(columns, activation)
    sums = torch.empty_like(clipped)
    parts = -(-bags // ROWS)
    partial = clipped.new_empty(parts, columns, dtype=torch.float32)
    wide = width_of(width, clipped, sums, gradient)
    constants = {"BFLOAT16": int(clipped.dtype == torch.bfloat16), "ACTIVATION": activation, "CUT": int(cut.one > 0)}
    source = Source.of(_BACKWARD, WIDTH=wide, **constants)
    extent = Extent(parts, width // wide)
    run(
        clipped.device, source, "first_stage_backward", extent,
        gradient, clipped, sums, partial, float(highest), bags // 2, columns, cut.factor,
    )  # fmt: skip
    return sums, column_sums(partial)


WriteGradient = Callable[[Tensor], Tensor | None]


def fused_first_stage(
    weight: Tensor,
    bias: Tensor,
    effective: tuple[Tensor, Tensor],
    numbers: Tensor,
    offsets: Tensor,
    write: WriteGradient,
    highest: float,
    activation: Activation,
    cut: Cut = NOT_CUT,
) -> Tensor:
    """Computes `first_stage` of the table and bias in `effective`, with a derivative as if they were `weight` and
    `bias`. `write` gets the gradient of the sums. It returns the gradient of the table for autograd, or None if it has
    stored that elsewhere."""
    out: Tensor = _FirstStage.apply(weight, bias, effective, numbers, offsets, write, highest, activation, cut)  # type: ignore[no-untyped-call]
    return out


class _FirstStage(torch.autograd.Function):
    """The autograd function of `fused_first_stage`."""

    @staticmethod
    def forward(
        ctx: Any,
        weight: Tensor,  # noqa: ARG004
        bias: Tensor,  # noqa: ARG004
        effective: tuple[Tensor, Tensor],
        numbers: Tensor,
        offsets: Tensor,
        write: WriteGradient,
        highest: float,
        activation: Activation,
        cut: Cut,
    ) -> Tensor:
        table, start = (tensor.detach().contiguous() for tensor in effective)
        out, clipped = first_stage(table, start, numbers, offsets, highest, int(activation), cut)
        ctx.save_for_backward(clipped)
        ctx.write, ctx.highest, ctx.activation, ctx.cut = write, highest, activation, cut
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (clipped,) = ctx.saved_tensors
        sums, bias = first_stage_backward(gradient.contiguous(), clipped, ctx.highest, int(ctx.activation), ctx.cut)
        weight = ctx.write(sums) if ctx.needs_input_grad[0] else None
        return weight, bias.to(clipped.dtype) if ctx.needs_input_grad[1] else None, *[None] * 7


def _activations_per_side(columns: int, activation: int) -> int:
    """Returns the number of activations of one perspective, given the number of the table's columns."""
    return columns // 2 if activation == Activation.PAIRWISE else columns
