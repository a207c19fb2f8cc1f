"""What layer stacks have besides linear layers: both activations at once, and the PSQT part of a sample's own bucket.

Float32, each a launch forward and one backward. Kernels: square_and_clip.cu, bucket_difference.cu.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pool.cuda.borders import borders_of
from pool.cuda.launcher import Extent, launcher, run
from pool.cuda.operation import operation
from pool.cuda.source import Source

_ACTIVATIONS = Source.of("square_and_clip.cu", BFLOAT16=0, WIDTH=1)


def serves(x: Tensor) -> bool:
    """Whether the functions below take tensors like this one."""
    plain = x.dtype == torch.float32 and not torch._C._are_functorch_transforms_active()
    return plain and launcher(x.device) is not None


def square_and_clip(y: Tensor, used: int, factor: float, highest: float) -> Tensor:
    """[samples, 2 * used] of y [samples, outputs]: squares of the first `used` columns times factor, then these
    themselves; clipped to 0 .. highest."""
    out: Tensor = _SquareAndClip.apply(y, used, factor, highest)  # type: ignore[no-untyped-call]
    return out


def bucket_difference(sums: Tensor, borders: Sequence[int]) -> Tensor:
    """[samples] of sums [2 * samples, buckets], own perspectives first: half of own minus opponent's, in the column of
    the sample's bucket; those of bucket b are borders[b] .. borders[b + 1]."""
    out: Tensor = _BucketDifference.apply(sums, tuple(borders))  # type: ignore[no-untyped-call]
    return out


@operation()
def square_and_clip_forward(y: Tensor, used: int, factor: float, highest: float) -> Tensor:
    """`square_and_clip` of a contiguous tensor."""
    samples, outputs = y.shape
    out = y.new_empty(samples, 2 * used)
    extent = Extent(out.numel(), 1)
    run(y.device, _ACTIVATIONS, "square_and_clip", extent, y, out, factor, highest, samples, outputs, used)
    return out


@square_and_clip_forward.fake
def _(y: Tensor, used: int, factor: float, highest: float) -> Tensor:
    return y.new_empty(y.shape[0], 2 * used)


@operation()
def square_and_clip_backward(gradient: Tensor, y: Tensor, used: int, factor: float, highest: float) -> Tensor:
    """The gradient of y."""
    samples, outputs = y.shape
    out = torch.empty_like(y)
    run(
        y.device, _ACTIVATIONS, "square_and_clip_backward", Extent(out.numel(), 1),
        gradient, y, out, factor, highest, samples, outputs, used,
    )  # fmt: skip
    return out


@square_and_clip_backward.fake
def _(gradient: Tensor, y: Tensor, used: int, factor: float, highest: float) -> Tensor:
    return torch.empty_like(y)


@operation()
def bucket_difference_forward(sums: Tensor, borders: Sequence[int]) -> Tensor:
    """`bucket_difference` of a contiguous tensor."""
    samples = sums.shape[0] // 2
    out = sums.new_empty(samples)
    source = _difference(len(borders) - 1)
    run(sums.device, source, "bucket_difference", Extent(samples, 1), sums, borders_of(borders), out, samples)
    return out


@bucket_difference_forward.fake
def _(sums: Tensor, borders: Sequence[int]) -> Tensor:
    return sums.new_empty(sums.shape[0] // 2)


@operation()
def bucket_difference_backward(gradient: Tensor, borders: Sequence[int]) -> Tensor:
    """The gradient of the sums."""
    samples, buckets = len(gradient), len(borders) - 1
    out = gradient.new_empty(2 * samples, buckets)
    arguments = gradient, borders_of(borders), out, samples
    run(gradient.device, _difference(buckets), "bucket_difference_backward", Extent(out.numel(), 1), *arguments)
    return out


@bucket_difference_backward.fake
def _(gradient: Tensor, borders: Sequence[int]) -> Tensor:
    return gradient.new_empty(2 * len(gradient), len(borders) - 1)


class _SquareAndClip(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, used: int, factor: float, highest: float) -> Tensor:
        y = y.contiguous()
        ctx.save_for_backward(y)
        ctx.how = used, factor, highest
        return square_and_clip_forward(y, *ctx.how)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (y,) = ctx.saved_tensors
        return square_and_clip_backward(gradient.contiguous(), y, *ctx.how), None, None, None


class _BucketDifference(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, sums: Tensor, borders: tuple[int, ...]) -> Tensor:
        ctx.borders = borders
        return bucket_difference_forward(sums.contiguous(), borders)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return bucket_difference_backward(gradient.contiguous(), ctx.borders), None


def _difference(buckets: int) -> Source:
    return Source.of("bucket_difference.cu", BFLOAT16=0, WIDTH=1, BUCKETS=buckets)
