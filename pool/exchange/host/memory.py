"""Memory of one process alone."""

from __future__ import annotations

import contextlib
import mmap

import numpy as np
import numpy.typing as npt


def untouched(size: int) -> npt.NDArray[np.uint8]:
    """Zeros that take memory only where they are written."""
    memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE)
    with contextlib.suppress(OSError):  # a wish: not every kernel has them
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)[:size]
