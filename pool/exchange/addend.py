"""Gradients where they lie, on their way into a sum."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

Touched = npt.NDArray[np.unsignedinteger[Any]]  # numbers of a table's rows, ascending


@dataclass(frozen=True)
class Addend:
    """A contribution's gradient of one piece of the model, or the sum of several at the place of one of them."""

    place: int  # in the tree (`pool.exchange.order`)
    gradient: Tensor  # shaped as the piece; or of a table the rows that are defined, one after the other
    touched: Touched | None  # of a table: the rows that are defined, numbered as features; None: all of it


def within(touched: Touched, first: int, last: int) -> tuple[int, int]:
    """Where the rows from `first` to below `last` begin and end in the list. (numpy's search would copy all of it, to
    compare numbers of one type.)"""
    begin = bisect_left(touched, first)
    return begin, bisect_left(touched, last, begin)
