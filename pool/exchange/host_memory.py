"""Memory of the host for an exchange: what processes share, as the coordinator sees it, and what one process has
alone."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pool.exchange.layout import MemberLayout

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

    def of_member(self, layout: MemberLayout) -> HostMemory:
        """Returns the part of this memory, which is that of all members, that belongs to one member."""
        halves = [half[layout.bytes] for half in self.halves]
        slots = {key: slot[layout.slot_bytes] for key, slot in self.slots.items()}
        average = None if self.average is None else self.average[layout.bytes]
        return HostMemory(halves, slots, average)


def lazy_zeros(nbytes: int) -> Slot:
    """Returns private zeros, uint8 [nbytes], that take physical memory only where they are written."""
    memory = mmap.mmap(-1, max(nbytes, 1), flags=mmap.MAP_PRIVATE)
    with contextlib.suppress(OSError):  # not every kernel has huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)[:nbytes]
