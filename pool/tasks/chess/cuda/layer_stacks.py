"""Computes the layer stacks (small layers, one stack for each output bucket) of all buckets at once, forward and
backward. Kernels: stacked_linear.cu, layer_stacks.cu.

Float32. There are two launches forward and four backward, however many layers and buckets there are, and one more each
if the weights are changed before use or have a part that all buckets share. Each run gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pool._native import structure
from pool.kernels.backend import backend_of
from pool.kernels.cuda.compiler import Source
from pool.kernels.cuda.launcher import Extent, Pointer, UInt32, run, width_of
from pool.tasks.chess.cuda.effective_weights import ParameterTransform, apply_transform
from pool.tasks.chess.cuda.stack_spec import CudaStackSpec, pack_borders

_LINEAR, _STACKS = (Path(__file__).with_name(name) for name in ("stacked_linear.cu", "layer_stacks.cu"))
MAX_BUCKETS = 64
SLICE = 128  # number of a row's inputs that one thread multiplies and adds up
TILE = 8  # outputs that one thread computes; as in stacks.cuh
SAMPLES = 64  # samples in a piece of the backward pass; as in stacked_linear.cu
_NO_LAYERS, _NO_TRANSFORM = CudaStackSpec(()), ParameterTransform()


def supports(x: Tensor) -> bool:
    """Returns whether `layer_stacks` can compute with inputs like `x`: float32, on a device with kernels."""
    plain = x.dtype == torch.float32 and not torch._C._are_functorch_transforms_active()
    return plain and backend_of(x.device) == "cuda"


def layer_stacks(
    spec: CudaStackSpec,
    x: Tensor,
    extra: Tensor | None,
    borders: Sequence[int],
    parameters: Sequence[Tensor],
    shared: tuple[Tensor, Tensor] | None = None,
    changes: ParameterTransform | None = None,
) -> Tensor:
    """Computes the outputs of the stacks, plus `extra` [samples]. Returns [samples]. Samples borders[b] .. borders[b +
    1] belong to stack b.

    x: [samples, inputs]. parameters: weight and bias of each layer, [buckets, outputs, inputs] and [buckets, outputs].
    shared: added to weight and bias of the first layer in every bucket. changes: applied to the parameters after that.
    Gradients are those of the changed parameters.
    """
    all_parameters = (*parameters, *(shared or ()))
    transform = changes or _NO_TRANSFORM
    out: Tensor = _LayerStacks.apply(spec, transform, x, extra, tuple(borders), len(parameters), *all_parameters)  # type: ignore[no-untyped-call]
    return out


def stacks_forward(
    spec: CudaStackSpec, x: Tensor, extra: Tensor | None, parameters: Sequence[Tensor], borders: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Computes the forward pass of `layer_stacks`, for contiguous tensors. Returns the outputs [samples], and the
    hidden layers' outputs, one row for each sample."""
    samples, inputs = x.shape
    packed_borders = pack_borders(borders)
    wide, parts = spec.outputs[0], -(-inputs // SLICE)
    products = x.new_empty(parts, wide, samples)
    out, hidden = x.new_empty(samples), x.new_empty(samples, spec.row)
    run(
        x.device,
        _products(spec, len(borders) - 1, width_of(inputs, x, parameters[0])),
        "stacked_products",
        Extent(samples * parts * -(-wide // TILE), 1),
        x, parameters[0], packed_borders, products, samples, inputs, wide, SLICE,
    )  # fmt: skip
    run(
        x.device, _stacks(spec, len(borders) - 1), "stacks_forward", Extent(samples, 1),
        products, extra, _addresses(parameters), spec.structure, packed_borders, hidden, out, samples, parts,
    )  # fmt: skip
    return out, hidden


def stacks_backward(
    spec: CudaStackSpec,
    gradient: Tensor,
    x: Tensor,
    hidden: Tensor,
    parameters: Sequence[Tensor],
    borders: Sequence[int],
    factor: float,
) -> list[Tensor]:
    """Computes the gradients of x and of the parameters, in this order. That of the first weight is multiplied by
    `factor`. `hidden` are the hidden layers' outputs of the forward pass."""
    samples, inputs = x.shape
    buckets, packed_borders, wide = len(borders) - 1, pack_borders(borders), spec.outputs[0]
    pieces = [0, *accumulate(-(-(end - begin) // SAMPLES) for begin, end in pairwise(borders))]
    cut, row = pack_borders(pieces), _row_of(spec, inputs)
    input_gradient, gradients = torch.empty_like(x), [torch.empty_like(parameter) for parameter in parameters]
    slopes, sums = x.new_empty(samples, spec.row + 4), x.new_empty(pieces[-1] * row.numbers)
    width = width_of(inputs, x, parameters[0])
    source, groups = _products(spec, buckets, width), inputs // width
    run(
        x.device, _stacks(spec, buckets), "stacks_backward", Extent(samples, 1),
        gradient, _addresses(parameters), spec.structure, packed_borders, hidden, slopes, samples,
    )  # fmt: skip
    run(
        x.device, source, "stacked_inputs", Extent(samples, groups),
        slopes, parameters[0], packed_borders, input_gradient, samples, inputs, wide, spec.row + 4,
    )  # fmt: skip
    run(
        x.device, source, "stacked_pieces", Extent(pieces[-1] * row.tiles, max(groups, row.widest)),
        x, hidden, slopes, spec.structure, packed_borders, cut, row.columns, sums, inputs,
    )  # fmt: skip
    run(
        x.device, source, "stacked_sums", Extent(buckets * row.numbers, 1),
        sums, cut, row.columns, structure(at=(Pointer, gradients)), factor,
    )  # fmt: skip
    return [input_gradient, *gradients]


class _Row(NamedTuple):
    """The layout of the gradients of one stack's parameters, which lie one after the other."""

    columns: bytes  # offset of each parameter's gradient, as kernels take them
    numbers: int
    tiles: int  # number of tiles of outputs in all layers
    widest: int  # largest number of inputs of a layer after the first


@cache
def _row_of(spec: CudaStackSpec, inputs: int) -> _Row:
    """Computes the layout of one stack's gradients. Results are cached."""
    columns = spec.columns(inputs)
    tiles = sum(-(-outputs // TILE) for outputs in spec.outputs)
    return _Row(structure(at=(UInt32, columns)), columns[-1], tiles, max(spec.inputs(0)))


def shared_gradients(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Computes the gradients of the shared weight and bias: sums over the buckets of [buckets, outputs, inputs] and
    [buckets, outputs]."""
    buckets, outputs, inputs = weight.shape
    weight_sum, bias_sum = weight.new_empty(outputs, inputs), bias.new_empty(outputs)
    source = _products(_NO_LAYERS, buckets, 1)
    run(
        weight.device, source, "shared_sums", Extent(outputs * (inputs + 1), 1),
        weight, bias, weight_sum, bias_sum, outputs * inputs, outputs,
    )  # fmt: skip
    return weight_sum, bias_sum


class _LayerStacks(torch.autograd.Function):
    """The autograd function of `layer_stacks`. Its parameters come last: `count` of the layers, then the shared
    ones."""

    @staticmethod
    def forward(
        ctx: Any,
        spec: CudaStackSpec,
        changes: ParameterTransform,
        x: Tensor,
        extra: Tensor | None,
        borders: tuple[int, ...],
        count: int,
        *all_parameters: Tensor,
    ) -> Tensor:
        x, extra = x.contiguous(), None if extra is None else extra.contiguous()
        parameters = apply_transform(
            changes, [each.contiguous() for each in all_parameters[:count]], all_parameters[count:]
        )
        out, hidden = stacks_forward(spec, x, extra, parameters, borders)
        ctx.save_for_backward(x, hidden, *parameters)
        ctx.spec, ctx.borders, ctx.factor, ctx.has_shared = spec, borders, changes.factor, len(all_parameters) > count
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, hidden, *parameters = ctx.saved_tensors
        gradient = gradient.contiguous()
        input_gradient, *gradients = stacks_backward(ctx.spec, gradient, x, hidden, parameters, ctx.borders, ctx.factor)
        shared = shared_gradients(gradients[0], gradients[1]) if ctx.has_shared else ()
        extra = gradient if ctx.needs_input_grad[3] else None
        return None, None, input_gradient, extra, None, None, *chain(gradients, shared)


def _addresses(parameters: Sequence[Tensor]) -> bytes:
    return structure(weight=(Pointer, parameters[::2]), bias=(Pointer, parameters[1::2]))


@cache
def _products(spec: CudaStackSpec, buckets: int, width: int) -> Source:
    """Returns the source of the wide layer's kernels, for this form and number of buckets."""
    return Source.of(_LINEAR, BFLOAT16=0, WIDTH=width, BUCKETS=buckets, **spec.constants)


@cache
def _stacks(spec: CudaStackSpec, buckets: int) -> Source:
    """Returns the source of the other layers' kernels, for this form and number of buckets."""
    return Source.of(_STACKS, BFLOAT16=0, WIDTH=4, BUCKETS=buckets, **spec.constants)
