"""Where each bucket's samples begin, as kernels take it (kernels/borders.cuh)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from pool.kernels.cuda.structure import UInt32, structure


def borders_of(borders: Sequence[int]) -> ctypes.Structure:
    """Of one bucket less than there are borders."""
    return structure(at=(UInt32, borders))
