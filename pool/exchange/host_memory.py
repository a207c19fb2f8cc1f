"""Memory of the host for an exchange: what processes share, as the coordinator sees it, and what one process has
alone."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pool.exchange.layout import Part

Slot = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class HostMemory:
    """The shared memory through which the coordinator exchanges with workers: for all members of the run, or for one of
    them.

    A member is one network of an ensemble.
    """

    halves: Sequence[Slot]  # the two versions of the weights
    slots: Mapping[tuple[int, int], Slot]  # gradient slots, by (worker, slot)
    average: Slot | None = None  # the averaged weights, if the run has them

    def of(self, part: Part) -> HostMemory:
        """Returns the part of this memory, which is that of all members, that belongs to one member."""
        return HostMemory(
            [half[part.bytes] for half in self.halves],
            {place: slot[part.slot_bytes] for place, slot in self.slots.items()},
            None if self.average is None else self.average[part.bytes],
        )


def lazy_zeros(size: int) -> Slot:
    """Returns private zeros, uint8 [size], that take physical memory only where they are written."""
    memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE)
    with contextlib.suppress(OSError):  # not every kernel has huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)[:size]
