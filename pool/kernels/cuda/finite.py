"""Whether all numbers of several tensors are finite, as they are or rounded, in one launch: kernels/finite.cu."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from pool.kernels.cuda.launcher import Extent, run
from pool.kernels.cuda.operation import operation
from pool.kernels.cuda.source import Source
from pool.kernels.cuda.structure import Pointer, UInt32, UInt64, structure

MOST = 64  # tensors of a launch
LIMITS = {  # by type that a number is rounded to, to nearest even: the bits of the least that is infinite then
    torch.float32: 0x7F800000,
    torch.bfloat16: 0x7F7F8000,
}
FLOAT32_LIMIT = LIMITS[torch.float32]
_LANES, _NUMBERS = 32, 256  # of kernels/finite.cu


def takes(tensor: Tensor) -> bool:
    """Whether the operation below does."""
    return tensor.dtype == torch.float32 and tensor.is_contiguous()


@operation("found")
def find_infinite(
    found: Tensor, tensors: Sequence[Tensor], limits: Sequence[int], losses: Sequence[Tensor], batch: int
) -> None:
    """found[t] = `batch` (int32) if a number of tensor t is a NaN or reaches limit t, of `LIMITS`; else it stays.
    Behind these come the bits of `losses`: none or one float32 [n]."""
    device, count = found.device, len(tensors)
    for begin in range(0, max(1, count), MOST):
        some = tensors[begin : begin + MOST]
        first = [0, *accumulate(-(-tensor.numel() // _NUMBERS) * _LANES for tensor in some)]
        listed = structure(
            at=(Pointer, some or [None]),
            size=(UInt64, [tensor.numel() for tensor in some] or [0]),
            first=(UInt64, first[:-1] or [0]),
            limit=(UInt32, limits[begin : begin + MOST] or [0]),
        )
        last = losses[0] if losses and begin + MOST >= count else None
        copied = 0 if last is None else len(last)
        source = Source.of("finite.cu", BFLOAT16=0, WIDTH=1, TENSORS=max(1, len(some)))
        arguments = listed, found[begin:], UInt64(first[-1]), batch, last, found[count:], copied
        run(device, source, "find_infinite", Extent(first[-1] + copied, 1), *arguments)


@find_infinite.fake
def _(found: Tensor, tensors: Sequence[Tensor], limits: Sequence[int], losses: Sequence[Tensor], batch: int) -> None:
    pass
