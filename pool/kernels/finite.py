"""Checks which gradients of a group's batches are finite, and joins the answers with the losses to one tensor.

The one tensor takes only one copy to the host. Where there are kernels, the gradients of a batch are checked in one
launch for each 64 of them (cuda/src/finite.cu), elsewhere by torch's operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pool._native import structure
from pool.kernels.backend import backend_of
from pool.kernels.cuda.compiler import Source
from pool.kernels.cuda.launcher import Extent, Pointer, UInt32, UInt64, run

MOST = 64  # tensors that one launch checks
LIMITS = {  # by rounded type: bits of the least float32 that becomes infinite when it is rounded to nearest even
    torch.float32: 0x7F800000,
    torch.bfloat16: 0x7F7F8000,
}
FLOAT32_LIMIT = LIMITS[torch.float32]
_LANES, _NUMBERS = 32, 256  # as in finite.cu


def find_infinite(
    found: Tensor, tensors: Sequence[Tensor], limits: Sequence[int], losses: Sequence[Tensor], batch: int
) -> None:
    """Writes `batch` to found[t], int32, if a number of tensor t is a NaN or reaches limit t (`LIMITS`). Else found[t]
    stays.

    The bits of the losses are written after these. `losses`: none, or one float32 [n].
    """
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
        copied = 0 if last is None else last.numel()
        source = Source.of("finite.cu", BFLOAT16=0, WIDTH=1, TENSORS=max(1, len(some)))
        behind = None if last is None else found[count:]
        arguments = listed, found[begin:] if begin else found, first[-1], batch, last, behind, copied
        run(device, source, "find_infinite", Extent(first[-1] + copied, 1), *arguments)


class Outcomes:
    """Losses and finiteness of the gradients of one group of batches at a time, on one device."""

    def __init__(self, device: torch.device, most: int) -> None:
        """Allocates the flags on the device. `most`: the greatest number of losses and gradients of a group."""
        self._has_kernels = backend_of(device) == "cuda"
        # for each gradient the number, from 1, of the last batch in which it was not finite; then the losses' bits
        self._found = torch.zeros(most, dtype=torch.int32, device=device)
        self._flags = self._found.unbind()
        self._batch = 1
        self._batches: list[int] = []  # number of the batch of each flag in `_found`
        self._waiting: list[tuple[Tensor, int]] = []  # gradients to be checked in the next launch, each with its limit
        self._losses = 0

    def start_group(self) -> None:
        """Starts a new group. The outcome of the previous group has been read."""
        self._batch += 1
        self._batches, self._waiting = [], []

    def start_batch(self) -> None:
        """Starts the next batch of the group."""
        self._look(())
        self._batch += 1

    def check(self, gradient: Tensor, rounded_to: torch.dtype = torch.float32) -> Tensor:
        """Queues a check whether a gradient is finite, and would be if it were rounded. Returns a flag for `gather`.

        The gradient must not change any more.
        """
        limit = LIMITS.get(rounded_to, FLOAT32_LIMIT)
        if not self._has_kernels or gradient.dtype != torch.float32 or not gradient.is_contiguous():
            rounded = gradient if limit == FLOAT32_LIMIT else gradient.to(rounded_to)
            return rounded.isfinite().all()
        self._waiting.append((gradient, limit))
        self._batches.append(self._batch)
        return self._flags[len(self._batches) - 1]

    def gather(self, losses: Tensor, flags: Sequence[Tensor]) -> Tensor:
        """Returns losses and flags as one tensor on the device, whose copy on the host `decode` reads.

        `flags`: what `check` has returned, in its order.
        """
        self._losses = len(losses)
        if self._has_kernels and len(flags) == len(self._batches) and losses.dtype == torch.float32:
            self._look((losses.detach(),))
            return self._found[: len(flags) + len(losses)]
        self._look(())
        numbers = losses.detach().to(torch.float64)
        batches = iter(self._batches)
        sound = [flag if flag.dtype == torch.bool else flag != next(batches) for flag in flags]
        return torch.cat([numbers, torch.stack(sound).to(torch.float64)]) if sound else numbers

    def decode(self, numbers: npt.NDArray[np.generic]) -> tuple[list[float], list[bool]]:
        """Returns the losses, and for each check whether the gradient was finite. `numbers`: the host's copy of
        `gather`'s tensor."""
        if numbers.dtype == np.float64:
            return numbers[: self._losses].tolist(), (numbers[self._losses :] != 0).tolist()
        count = len(self._batches)
        return numbers[count:].view(np.float32).tolist(), (numbers[:count] != self._batches).tolist()

    def _look(self, losses: Sequence[Tensor]) -> None:
        """Queues the checks of all gradients that wait for it, and writes the losses after their flags."""
        if self._waiting or losses:
            begin = len(self._batches) - len(self._waiting)
            place = self._found[begin:] if begin else self._found
            tensors, limits = [each for each, _ in self._waiting], [limit for _, limit in self._waiting]
            find_infinite(place, tensors, limits, list(losses), self._batch)
            self._waiting = []
