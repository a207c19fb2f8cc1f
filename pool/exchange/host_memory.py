"""Memory of the host: what processes share, as the coordinator's end uses it, and what one process has alone."""

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
    """The memory through which the coordinator exchanges with workers: of all members, or one member's part."""

    halves: Sequence[Slot]  # the two versions of the weights
    slots: Mapping[tuple[int, int], Slot]  # of gradients, by (worker, slot)
    average: Slot | None = None  # of the weights, if the run has one

    def of(self, part: Part) -> HostMemory:
        """Returns a member's part of the memory of all."""
        return HostMemory(
            [half[part.bytes] for half in self.halves],
            {place: slot[part.slot_bytes] for place, slot in self.slots.items()},
            None if self.average is None else self.average[part.bytes],
        )


def untouched(size: int) -> Slot:
    """Zeros of this process's own that take memory only where they are written."""
    memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE)
    with contextlib.suppress(OSError):  # a wish: not every kernel has them
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)[:size]
