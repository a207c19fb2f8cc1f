"""A linear layer for each bucket of samples, computed for all buckets at once (kernels/stacked_linear.cu).

Float32. One launch or two forward and four backward, however many buckets there are. The same bits in each run.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pool.cuda.borders import borders_of
from pool.cuda.launcher import Extent, launcher, run, width_of
from pool.cuda.operation import operation
from pool.cuda.source import Source

MOST_BUCKETS = 64
MOST_OUTPUTS = 64  # of wider layers a library's products, bucket by bucket, are quicker
SLICE = 128  # inputs that a thread multiplies and adds up, of long rows
TILE = 8  # of kernels/stacked_linear.cu
SAMPLES = 64


def serves(x: Tensor, weight: Tensor) -> bool:
    """Whether `stacked_linear` takes these, [samples, inputs] and [buckets, outputs, inputs]."""
    if torch._C._are_functorch_transforms_active():
        return False
    floats = x.dtype == weight.dtype == torch.float32
    small = len(weight) <= MOST_BUCKETS and weight.shape[1] <= MOST_OUTPUTS
    return floats and small and launcher(x.device) is not None


def stacked_linear(x: Tensor, weight: Tensor, bias: Tensor, borders: Sequence[int]) -> Tensor:
    """[samples, outputs] of x [samples, inputs]: samples borders[b] .. borders[b + 1] by weight[b] [outputs, inputs]
    and bias[b] [outputs]."""
    out: Tensor = _StackedLinear.apply(x, weight, bias, tuple(borders))  # type: ignore[no-untyped-call]
    return out


@operation()
def stacked_forward(x: Tensor, weight: Tensor, bias: Tensor, borders: Sequence[int]) -> Tensor:
    """`stacked_linear` of contiguous tensors."""
    (samples, inputs), (buckets, outputs, _) = x.shape, weight.shape
    width = width_of(inputs, x, weight)
    parts = -(-inputs // SLICE)
    out = x.new_empty(samples, outputs)
    products = out if parts == 1 else x.new_empty(parts, samples, outputs)
    from_ = borders_of(borders)
    extent = Extent(samples * parts * -(-outputs // TILE), 1)
    arguments = x, weight, bias, from_, products, samples, inputs, outputs, SLICE
    run(x.device, _source(buckets, width), "stacked_products", extent, *arguments)
    if parts > 1:
        joined = products, bias, from_, out, samples, outputs, parts
        run(x.device, _source(buckets, width), "stacked_join", Extent(samples * outputs, 1), *joined)
    return out


@stacked_forward.fake
def _(x: Tensor, weight: Tensor, bias: Tensor, borders: Sequence[int]) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[1])


@operation()
def stacked_backward(
    gradient: Tensor, x: Tensor, weight: Tensor, borders: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, weight and bias, of contiguous tensors."""
    (samples, inputs), (buckets, outputs, _) = x.shape, weight.shape
    pieces = [0, *accumulate(-(-(end - begin) // SAMPLES) for begin, end in pairwise(borders))]
    from_, cut = borders_of(borders), borders_of(pieces)
    of_x, of_weight = torch.empty_like(x), torch.empty_like(weight)
    of_bias = weight.new_empty(buckets, outputs)
    weights, biases = x.new_empty(pieces[-1], outputs, inputs), x.new_empty(pieces[-1], outputs)
    width = width_of(inputs, x, weight, of_x, of_weight, weights)
    source, groups = _source(buckets, width), inputs // width
    run(
        x.device, source, "stacked_inputs", Extent(samples, groups),
        gradient, weight, from_, of_x, samples, inputs, outputs,
    )  # fmt: skip
    run(
        x.device, source, "stacked_pieces", Extent(pieces[-1] * -(-outputs // TILE), groups),
        gradient, x, from_, cut, weights, biases, inputs, outputs,
    )  # fmt: skip
    for sums, out in ((weights, of_weight), (biases, of_bias)):
        columns = out[0].numel()
        width = width_of(columns, sums, out)
        run(
            x.device,
            _source(buckets, width),
            "stacked_sums",
            Extent(buckets, columns // width),
            sums,
            cut,
            out,
            columns,
        )
    return of_x, of_weight, of_bias


@stacked_backward.fake
def _(gradient: Tensor, x: Tensor, weight: Tensor, borders: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(x), torch.empty_like(weight), weight.new_empty(weight.shape[:2])


class _StackedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, borders: tuple[int, ...]) -> Tensor:
        x, weight = x.contiguous(), weight.contiguous()
        ctx.save_for_backward(x, weight)
        ctx.borders = borders
        return stacked_forward(x, weight, bias.contiguous(), borders)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        return *stacked_backward(gradient.contiguous(), x, weight, ctx.borders), None


def _source(buckets: int, width: int) -> Source:
    return Source.of("stacked_linear.cu", BFLOAT16=0, WIDTH=width, BUCKETS=buckets)
