"""What has come of a group's batches: losses, and which gradients are finite. As one tensor, for one copy to the host.

Where there are kernels a batch's gradients are looked at in one launch, elsewhere by torch's operations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pool.kernels.cuda import finite
from pool.kernels.cuda.finite import FLOAT32_LIMIT, LIMITS
from pool.kernels.cuda.launcher import launcher


class Outcomes:
    """Of one group at a time, on one device."""

    def __init__(self, device: torch.device, most: int) -> None:
        """`most`: losses and gradients of a group."""
        self._has_kernels = launcher(device) is not None
        # of each gradient the last batch in which it was not finite, by number from 1; then the losses' bits
        self._found = torch.zeros(most, dtype=torch.int32, device=device)
        self._batch = 1
        self._batches: list[int] = []  # in which `_found` was looked at, in its order
        self._waiting: list[tuple[Tensor, int]] = []  # with its limit
        self._losses = 0

    def begin(self) -> None:
        """The group before has been read."""
        self._batch += 1
        self._batches, self._waiting = [], []

    def begin_batch(self) -> None:
        """The next of the group."""
        self._look(())
        self._batch += 1

    def check(self, gradient: Tensor, rounded_to: torch.dtype = torch.float32) -> Tensor:
        """Whether all of it is finite, for `gather`, and would be if it were rounded. Nobody changes it afterwards."""
        limit = LIMITS.get(rounded_to, FLOAT32_LIMIT)
        if not self._has_kernels or not finite.takes(gradient):
            rounded = gradient if limit == FLOAT32_LIMIT else gradient.to(rounded_to)
            return rounded.isfinite().all()
        self._waiting.append((gradient, limit))
        self._batches.append(self._batch)
        return self._found[len(self._batches) - 1]

    def gather(self, losses: Tensor, flags: Sequence[Tensor]) -> Tensor:
        """For `decode`, where it has been copied to the host. `flags`: what `check` gave, in its order."""
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
        """The losses and the flags."""
        if numbers.dtype == np.float64:
            return numbers[: self._losses].tolist(), (numbers[self._losses :] != 0).tolist()
        count = len(self._batches)
        return numbers[count:].view(np.float32).tolist(), (numbers[:count] != self._batches).tolist()

    def _look(self, losses: Sequence[Tensor]) -> None:
        """At the gradients of a batch, which are the last ones; the losses come behind them."""
        if self._waiting or losses:
            place = self._found[len(self._batches) - len(self._waiting) :]
            tensors, limits = [each for each, _ in self._waiting], [limit for _, limit in self._waiting]
            finite.find_infinite(place, tensors, limits, list(losses), self._batch)
            self._waiting = []
