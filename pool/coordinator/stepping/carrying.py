"""Copies numbers that the optimizer does not write from the old version of the weights to the new one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pool.exchange.addend import Addend, Touched

Rows = npt.NDArray[np.int64]  # of a piece: its first is 0; ascending


class CarryOver(Protocol):
    """Of one piece."""

    def over(self, old: Tensor, new: Tensor, gradients: Sequence[Addend], /) -> None:
        """Before the optimizer steps with these gradients: copies what it needs or leaves alone."""

    def rows_to_write(self, gradients: Sequence[Addend], /) -> Touched | None:
        """The rows that these gradients define, for an optimizer that writes no others; None: it writes all."""

    def forget(self) -> None:
        """The two versions may differ in any row."""


class StepsInPlace:
    """Any optimizer of torch: it changes a copy."""

    def over(self, old: Tensor, new: Tensor, _: Sequence[Addend]) -> None:
        new.copy_(old)

    def rows_to_write(self, _: Sequence[Addend]) -> Touched | None:
        return None

    def forget(self) -> None:
        pass


class WritesAll:
    """It reads the old version and writes all of the new one, if there is a gradient."""

    def over(self, old: Tensor, new: Tensor, gradients: Sequence[Addend]) -> None:
        if not gradients:
            new.copy_(old)

    def rows_to_write(self, _: Sequence[Addend]) -> Touched | None:
        return None

    def forget(self) -> None:
        pass


class WritesTouchedRows:
    """It writes the rows of a table that the gradients define. Other rows of the step before are copied."""

    def __init__(self, first_row: int) -> None:
        self._first_row = first_row
        self._changed: Rows | None = None  # rows in which the two versions may differ; None: all

    def over(self, old: Tensor, new: Tensor, gradients: Sequence[Addend]) -> None:
        written = self._inside(union(gradients), len(new))
        if self._changed is None:
            new.copy_(old)
        else:
            rows = torch.from_numpy(np.setdiff1d(self._changed, written, assume_unique=True))
            new.index_copy_(0, rows, old.index_select(0, rows))
        self._changed = written

    def rows_to_write(self, gradients: Sequence[Addend]) -> Touched | None:
        return union(gradients)

    def forget(self) -> None:
        self._changed = None

    def _inside(self, touched: Touched | None, count: int) -> Rows:
        if touched is None:
            return np.zeros(0, np.int64)
        rows = touched.astype(np.int64) - self._first_row
        return rows[(rows >= 0) & (rows < count)]


def union(gradients: Sequence[Addend]) -> Touched | None:
    """The rows that any of them defines; None of what is no table."""
    touched = [addend.touched for addend in gradients if addend.touched is not None]
    return np.unique(np.concatenate(touched)) if touched else None
