"""The first layer of an exported network as its engine computes it: sums of rows of integers, which wrap. Free of
torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pool import _native
from pool.tasks.chess.positions import Bags

Rows = Sequence[tuple[int, npt.NDArray[Any]]]  # of each table the feature of its first row, and its rows [R, columns]


def sums_int16(tables: Rows, bias: npt.NDArray[np.int16], bags: Bags, threads: int = 1) -> npt.NDArray[np.int16]:
    """Returns [n, columns]: bias and rows of int8 or int16, modulo 2^16."""
    out = np.empty((len(bags.offsets) - 1, len(bias)), np.int16)
    _native.integer_row_sums(tables, np.ascontiguousarray(bias), bags.features, bags.offsets, out, threads)
    return out


def sums_int32(tables: Rows, bags: Bags, threads: int = 1) -> npt.NDArray[np.int32]:
    """Returns [n, columns]: rows of int32, modulo 2^32."""
    out = np.empty((len(bags.offsets) - 1, tables[0][1].shape[1]), np.int32)
    _native.integer_row_sums(tables, None, bags.features, bags.offsets, out, threads)
    return out
