"""Where each bucket's samples begin, as kernels take it (kernels/borders.cuh)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache


def borders_of(borders: Sequence[int]) -> ctypes.Structure:
    """Of one bucket less than there are borders."""
    made = _type(len(borders))()
    made.at[:] = borders
    return made


@cache
def _type(count: int) -> type[ctypes.Structure]:
    return type("Borders", (ctypes.Structure,), {"_fields_": [("at", ctypes.c_uint32 * count)]})
