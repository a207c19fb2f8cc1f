"""Gradients where they lie, on their way into a sum."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from pool import _native

Touched = npt.NDArray[np.unsignedinteger[Any]]  # numbers of a table's rows, ascending


@dataclass(frozen=True)
class Addend:
    """A contribution's gradient of one piece of the model, or the sum of several at the place of one of them."""

    place: int  # in the tree (`pool.kernels.tree`)
    gradient: Tensor  # shaped as the piece; or of a table the rows that are defined, one after the other
    touched: Touched | None  # of a table: the rows that are defined, numbered as features; None: all of it
    numbers: Tensor | None = None  # of a table on a device: `touched` there; the gradient is these rows alone


def within(touched: Touched, first: int, last: int) -> tuple[int, int]:
    """Where the rows from `first` to below `last` begin and end in the list. (numpy's search would copy all of it, to
    compare numbers of one type.)"""
    begin = bisect_left(touched, first)
    return begin, bisect_left(touched, last, begin)


def union(gradients: Sequence[Addend], first_row: int, rows: int) -> Touched | None:
    """Those of a piece's rows that any of them defines, a copy; None of what is no table."""
    touched = [addend.touched for addend in gradients if addend.touched is not None]
    if not touched:
        return None
    last_row = first_row + rows
    if len(touched) == 1:
        begin, end = within(touched[0], first_row, last_row)
        return touched[0][begin:end].copy()
    out = np.empty(sum(map(len, touched)), np.uint32)
    return out[: _native.union_rows(out, touched, first=first_row, last=last_row)]
