"""Copies weights that the optimizer does not write from the old version to the new one. As much as possible is copied
before the gradients are there, while the workers compute them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from pool.coordinator.update.changed_rows import ChangedRows
from pool.exchange.interface import ShardMemory
from pool.kernels.reduction import Addend, Touched, union_rows

_NO_ROWS: Touched = np.zeros(0, np.uint32)


class UnchangedRows(Protocol):
    """Copies the numbers of one parameter part that a step leaves unchanged to the next version of the weights."""

    def copy_early(self, version: int, /) -> None:
        """Copies weights that `copy_before_step` would have to copy later. To be called when `version` of the weights
        is complete and its gradients are still to come. The call may be left out."""

    def copy_before_step(self, version: int, gradients: Sequence[Addend], /) -> None:
        """Copies weights from `version` to the next one: those that the optimizer reads there, and those that it does
        not write. To be called before the optimizer steps with these gradients."""

    def rows_to_write(self, gradients: Sequence[Addend], /) -> Touched | None:
        """Returns the table rows that these gradients define, if the optimizer writes no others; None if it writes
        all."""

    @property
    def written_rows(self) -> Touched | None:
        """The rows that the optimizer writes in the step of the last `copy_before_step`; None if it may write any."""

    def mark_all_changed(self) -> None:
        """Records that the old and the new version of the weights may differ in any row, because something else than
        the optimizer has written them."""


class CopyAllRows:
    """Copies all weights before each step, for an optimizer that changes weights in place, as torch's do."""

    written_rows = None

    def __init__(self, memory: ShardMemory) -> None:
        self._memory = memory
        self._is_copied = False  # True: the new version is a copy of the old one

    def copy_early(self, version: int) -> None:
        self._memory.copy_unchanged(version)
        self._is_copied = True

    def copy_before_step(self, version: int, _: Sequence[Addend]) -> None:
        if not self._is_copied:
            self._memory.copy_unchanged(version)
        self._is_copied = False

    def rows_to_write(self, _: Sequence[Addend]) -> Touched | None:
        return None

    def mark_all_changed(self) -> None:
        self._is_copied = False


class CopyWithoutGradient:
    """Copies weights only in a step without a gradient, for an optimizer of ours that reads the old version and writes
    all of the new one."""

    written_rows = None

    def __init__(self, memory: ShardMemory) -> None:
        self._memory = memory

    def copy_early(self, version: int) -> None:
        pass

    def copy_before_step(self, version: int, gradients: Sequence[Addend]) -> None:
        if not gradients:
            self._memory.copy_unchanged(version)

    def rows_to_write(self, _: Sequence[Addend]) -> Touched | None:
        return None

    def mark_all_changed(self) -> None:
        pass


class CopyUntouchedRows:
    """Copies rows of a table, for an optimizer that writes only the rows that the gradients define.

    The two versions differ in the rows that the step before has written. Either these are copied early, or once the
    gradients are there: then only those that the optimizer does not write again.
    """

    def __init__(self, memory: ShardMemory, num_rows: int, changes: ChangedRows) -> None:
        """Creates the copier for one part of a table. `memory`, `num_rows`: of the part, and how many rows it has.
        `changes`: records all rows that are written."""
        self._memory = memory
        self._first_row = memory.first_row
        self._num_rows = num_rows
        self._changes = changes
        self._different_rows: Touched | None = None  # rows in which the two versions may differ; None: all

    def copy_early(self, version: int) -> None:
        self._copy_different_rows(version, except_rows=None, share=2)  # half of the threads: workers need cores too
        self._different_rows = _NO_ROWS

    def copy_before_step(self, version: int, gradients: Sequence[Addend]) -> None:
        rows = self.rows_to_write(gradients)
        self._copy_different_rows(version, except_rows=rows)
        self._different_rows = _NO_ROWS if rows is None else rows
        self._changes.mark(self._different_rows)

    def rows_to_write(self, gradients: Sequence[Addend]) -> Touched | None:
        return union_rows(gradients, self._first_row, self._num_rows)

    @property
    def written_rows(self) -> Touched | None:
        return self._different_rows

    def _copy_different_rows(self, version: int, *, except_rows: Touched | None, share: int = 1) -> None:
        """Copies the table rows in which the two versions of the weights may differ, but for `except_rows`. `share`:
        uses one in so many of the threads that are worth starting."""
        if self._different_rows is None:
            self._memory.copy_unchanged(version)
        elif len(self._different_rows) > 0:
            self._memory.copy_unchanged(version, self._different_rows, but_not=except_rows, share=share)

    def mark_all_changed(self) -> None:
        self._different_rows = None
        self._changes.mark_range(self._first_row, self._first_row + self._num_rows)
