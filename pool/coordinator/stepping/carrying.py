"""Copies numbers that the optimizer does not write from the old version of the weights to the new one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from torch import Tensor

from pool import _native
from pool.coordinator.stepping.changes import ChangedRows
from pool.exchange.addend import Addend, Touched, within
from pool.threads import SCATTERED, worthwhile

_NONE: Touched = np.zeros(0, np.uint32)


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
    """It writes the rows of a table that the gradients define. Of the rows of the step before the others are copied."""

    def __init__(self, first_row: int, rows: int, changes: ChangedRows) -> None:
        """Of a table, `rows` rows from `first_row` on; `changes`: to be told."""
        self._first_row = first_row
        self._rows = rows
        self._changes = changes
        self._changed: Touched | None = None  # rows in which the two versions may differ; None: all

    def over(self, old: Tensor, new: Tensor, gradients: Sequence[Addend]) -> None:
        written = union(gradients, self._first_row, self._rows)
        if self._changed is None:
            new.copy_(old)
        else:
            threads = worthwhile(len(self._changed) * old[0].numel(), SCATTERED)
            _native.copy_rows(new, old, self._changed, but_not=written, first_row=self._first_row, threads=threads)
        self._changed = _NONE if written is None else written
        self._changes.mark(self._changed)

    def rows_to_write(self, gradients: Sequence[Addend]) -> Touched | None:
        return union(gradients, self._first_row, self._rows)

    def forget(self) -> None:
        self._changed = None
        self._changes.mark_range(self._first_row, self._first_row + self._rows)


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
