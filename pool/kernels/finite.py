"""Checks which gradients of a group's batches are finite, and joins the results with the losses to one tensor.

The one tensor takes only one copy to the host. Where there are kernels, the gradients of a batch are checked in one
launch for each 64 of them (cuda/src/finite.cu), elsewhere by torch's operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pool._native import structure
from pool.kernels.backend import backend_of
from pool.kernels.cuda.compiler import Source
from pool.kernels.cuda.launcher import Extent, Pointer, UInt32, UInt64, launch_kernel

MAX_TENSORS = 64  # that one launch checks
LIMITS = {  # by rounded type: bits of the least float32 that becomes infinite when it is rounded to nearest even
    torch.float32: 0x7F800000,
    torch.bfloat16: 0x7F7F8000,
}
FLOAT32_LIMIT = LIMITS[torch.float32]
_LANES, _NUMBERS = 32, 256  # as in finite.cu


def find_infinite(
    found: Tensor, tensors: Sequence[Tensor], limits: Sequence[int], losses: Tensor | None, batch: int
) -> None:
    """Writes `batch` to found[t], int32, if a number of tensor t is a NaN or reaches limit t (`LIMITS`). Else found[t]
    stays.

    The bits of the losses, float32 [n] or None, are written after these.
    """
    device, count = found.device, len(tensors)
    for begin in range(0, max(1, count), MAX_TENSORS):
        checked = tensors[begin : begin + MAX_TENSORS]
        # kernel threads before those of each tensor
        starts = [0, *accumulate(-(-tensor.numel() // _NUMBERS) * _LANES for tensor in checked)]
        listed = structure(
            at=(Pointer, checked or [None]),
            size=(UInt64, [tensor.numel() for tensor in checked] or [0]),
            first=(UInt64, starts[:-1] or [0]),
            limit=(UInt32, limits[begin : begin + MAX_TENSORS] or [0]),
        )
        is_last_launch = begin + MAX_TENSORS >= count
        copied_losses = losses if is_last_launch else None
        num_losses = 0 if copied_losses is None else copied_losses.numel()
        loss_target = None if copied_losses is None else found[count:]
        flags = found[begin:] if begin else found
        source = Source.of("finite.cu", BFLOAT16=0, WIDTH=1, TENSORS=max(1, len(checked)))
        arguments = listed, flags, starts[-1], batch, copied_losses, loss_target, num_losses
        launch_kernel(device, source, "find_infinite", Extent(starts[-1] + num_losses, 1), *arguments)


@dataclass(frozen=True)
class _PendingCheck:
    """A gradient to be checked in the next launch, and the bits of the limit that it must not reach."""

    gradient: Tensor
    limit: int


class Outcomes:
    """Losses and finiteness of the gradients of one group of batches at a time, on one device."""

    def __init__(self, device: torch.device, max_results: int) -> None:
        """Allocates the flags on the device. `max_results`: the greatest number of losses and gradients of a group."""
        self._has_kernels = backend_of(device) == "cuda"
        # for each gradient the number, from 1, of the last batch in which it was not finite; then the losses' bits
        self._found = torch.zeros(max_results, dtype=torch.int32, device=device)
        self._flags = self._found.unbind()
        self._batch = 1
        self._batches: list[int] = []  # number of the batch of each flag in `_found`
        self._pending: list[_PendingCheck] = []
        self._num_losses = 0

    def start_group(self) -> None:
        """Starts a new group. The outcome of the previous group has been read."""
        self._batch += 1
        self._batches, self._pending = [], []

    def start_batch(self) -> None:
        """Starts the next batch of the group."""
        self._launch_checks(None)
        self._batch += 1

    def check(self, gradient: Tensor, rounded_to: torch.dtype = torch.float32) -> Tensor:
        """Queues a check whether a gradient is finite, and would be if it were rounded. Returns a flag for `gather`.

        The gradient must not change any more.
        """
        limit = LIMITS.get(rounded_to, FLOAT32_LIMIT)
        if not self._has_kernels or gradient.dtype != torch.float32 or not gradient.is_contiguous():
            rounded = gradient if limit == FLOAT32_LIMIT else gradient.to(rounded_to)
            return rounded.isfinite().all()
        self._pending.append(_PendingCheck(gradient, limit))
        self._batches.append(self._batch)
        return self._flags[len(self._batches) - 1]

    def gather(self, losses: Tensor, flags: Sequence[Tensor]) -> Tensor:
        """Returns losses and flags as one tensor on the device, whose copy on the host `decode` reads.

        `flags`: what `check` has returned, in its order.

        Layout: where kernels have checked all gradients, int32: flags, then the bits of the losses. Else float64:
        losses, then flags, 1 for a finite gradient.
        """
        self._num_losses = len(losses)
        if self._has_kernels and len(flags) == len(self._batches) and losses.dtype == torch.float32:
            self._launch_checks(losses.detach())
            return self._found[: len(flags) + len(losses)]
        self._launch_checks(None)
        numbers = losses.detach().to(torch.float64)
        batches = iter(self._batches)
        is_finite = [flag if flag.dtype == torch.bool else flag != next(batches) for flag in flags]
        return torch.cat([numbers, torch.stack(is_finite).to(torch.float64)]) if is_finite else numbers

    def decode(self, results: npt.NDArray[np.generic]) -> tuple[list[float], list[bool]]:
        """Returns the losses, and for each check whether the gradient was finite. `results`: the host's copy of
        `gather`'s tensor."""
        if results.dtype == np.float64:
            return results[: self._num_losses].tolist(), (results[self._num_losses :] != 0).tolist()
        num_flags = len(self._batches)
        losses = results[num_flags:].view(np.float32)
        return losses.tolist(), (results[:num_flags] != self._batches).tolist()

    def _launch_checks(self, losses: Tensor | None) -> None:
        """Queues the pending checks, and writes the losses, if any, after all flags."""
        if not self._pending and losses is None:
            return
        begin = len(self._batches) - len(self._pending)
        flags = self._found[begin:] if begin else self._found
        gradients = [check.gradient for check in self._pending]
        limits = [check.limit for check in self._pending]
        find_infinite(flags, gradients, limits, losses, self._batch)
        self._pending = []
