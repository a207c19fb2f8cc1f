"""A sparse layer of which each sample has the output of its bucket alone, as half the difference of two perspectives:
kernels/bucket_difference.cu. Float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pool.kernels.cuda.launcher import Extent, run
from pool.kernels.cuda.operation import operation
from pool.kernels.cuda.source import Source
from pool.kernels.cuda.sparse_sums import INDEX
from pool.tasks.chess.cuda.borders import borders_of

MOST_BUCKETS = 64
WriteGradient = Callable[[Tensor], Tensor | None]


def bucket_difference(
    weight: Tensor, table: Tensor, numbers: Tensor, offsets: Tensor, borders: Sequence[int], write: WriteGradient
) -> Tensor:
    """[samples]: half of own minus opponent's sum of `table`'s rows [rows, buckets], in the column of the sample's
    bucket; those of bucket b are borders[b] .. borders[b + 1]. Bags as in `sum_lists`, own perspectives first.

    The derivative is as if the table were `weight`. `write` is given the gradient of the sums [bags, buckets], and
    returns the table's for autograd, or None if it has put it elsewhere."""
    out: Tensor = _BucketDifference.apply(weight, table, numbers, offsets, tuple(borders), write)  # type: ignore[no-untyped-call]
    return out


@operation()
def bucket_difference_forward(table: Tensor, numbers: Tensor, offsets: Tensor, borders: Sequence[int]) -> Tensor:
    """`bucket_difference` of a contiguous table."""
    samples = (offsets.shape[0] - 1) // 2
    out = table.new_empty(samples)
    arguments = table, numbers, offsets, borders_of(borders), out, samples
    run(table.device, _source(borders, numbers), "bucket_difference", Extent(samples, 1), *arguments)
    return out


@bucket_difference_forward.fake
def _(table: Tensor, numbers: Tensor, offsets: Tensor, borders: Sequence[int]) -> Tensor:
    return table.new_empty((offsets.shape[0] - 1) // 2)


@operation()
def bucket_difference_backward(gradient: Tensor, numbers: Tensor, borders: Sequence[int]) -> Tensor:
    """The gradient of the sums. Of `numbers` the type counts alone: one source serves both directions."""
    samples, buckets = len(gradient), len(borders) - 1
    out = gradient.new_empty(2 * samples, buckets)
    arguments = gradient, borders_of(borders), out, samples
    source = _source(borders, numbers)
    run(gradient.device, source, "bucket_difference_backward", Extent(out.numel(), 1), *arguments)
    return out


@bucket_difference_backward.fake
def _(gradient: Tensor, numbers: Tensor, borders: Sequence[int]) -> Tensor:
    return gradient.new_empty(2 * len(gradient), len(borders) - 1)


class _BucketDifference(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        weight: Tensor,  # noqa: ARG004
        table: Tensor,
        numbers: Tensor,
        offsets: Tensor,
        borders: tuple[int, ...],
        write: WriteGradient,
    ) -> Tensor:
        ctx.borders, ctx.write, ctx.numbers = borders, write, numbers
        return bucket_difference_forward(table.detach().contiguous(), numbers, offsets, borders)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        sums = bucket_difference_backward(gradient.contiguous(), ctx.numbers, ctx.borders)
        return ctx.write(sums) if ctx.needs_input_grad[0] else None, None, None, None, None, None


def _source(borders: Sequence[int], numbers: Tensor) -> Source:
    constants = {"BFLOAT16": 0, "WIDTH": 1, "VALUES": 0, "BUCKETS": len(borders) - 1}
    return Source.of("bucket_difference.cu", INDEX=INDEX[numbers.dtype], **constants)
