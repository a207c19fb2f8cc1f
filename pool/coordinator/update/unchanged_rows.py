"""Copies weights that the optimizer does not write from the old version to the new one. As much as possible is copied
before the gradients are there, while the workers compute them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from pool.coordinator.update.changed_rows import ChangedRows
from pool.exchange.interface import ShardMemory
from pool.kernels.reduction import Addend, Touched, union_rows

_NONE: Touched = np.zeros(0, np.uint32)


class UnchangedRows(Protocol):
    """Copies one parameter part's unchanged numbers to the next version."""

    def ahead(self, version: int, /) -> None:
        """Copies weights early that `over` would have to copy later. To be called when `version` of the weights is
        complete and its gradients are still to come. The call may be left out."""

    def over(self, version: int, gradients: Sequence[Addend], /) -> None:
        """Copies weights from `version` to the next one: those that the optimizer reads there, and those that it does
        not write. To be called before the optimizer steps with these gradients."""

    def rows_to_write(self, gradients: Sequence[Addend], /) -> Touched | None:
        """Returns the table rows that these gradients define, if the optimizer writes no others; None if it writes
        all."""

    @property
    def written(self) -> Touched | None:
        """The rows that the optimizer writes in the step for which `over` was called; None if it may write any."""

    def forget(self) -> None:
        """Notes that the old and the new version of the weights may differ in any row, because something else has
        written them."""


class CopyAllRows:
    """Copies for an optimizer that changes weights in place, as torch's do: the new version is a copy of the old one
    before it steps."""

    written = None

    def __init__(self, memory: ShardMemory) -> None:
        self._memory = memory
        self._equal = False  # True: the new version is a copy of the old one

    def ahead(self, version: int) -> None:
        self._memory.copy_unchanged(version)
        self._equal = True

    def over(self, version: int, _: Sequence[Addend]) -> None:
        if not self._equal:
            self._memory.copy_unchanged(version)
        self._equal = False

    def rows_to_write(self, _: Sequence[Addend]) -> Touched | None:
        return None

    def forget(self) -> None:
        self._equal = False


class CopyWithoutGradient:
    """Copies for an optimizer of ours that reads the old version and writes all of the new one. Nothing has to be
    copied unless there is no gradient."""

    written = None

    def __init__(self, memory: ShardMemory) -> None:
        self._memory = memory

    def ahead(self, version: int) -> None:
        pass

    def over(self, version: int, gradients: Sequence[Addend]) -> None:
        if not gradients:
            self._memory.copy_unchanged(version)

    def rows_to_write(self, _: Sequence[Addend]) -> Touched | None:
        return None

    def forget(self) -> None:
        pass


class CopyUntouchedRows:
    """Copies for an optimizer that writes only the rows of a table that the gradients define.

    The two versions differ in the rows that the step before has written. These are copied early; or, once the gradients
    are there, only those of them that are not written again.
    """

    def __init__(self, memory: ShardMemory, rows: int, changes: ChangedRows) -> None:
        """Makes the copier for one part of a table. `memory`, `rows`: of the part, and how many rows it has. `changes`:
        records all rows that are written."""
        self._memory = memory
        self._first_row = memory.first_row
        self._rows = rows
        self._changes = changes
        self._changed: Touched | None = None  # rows in which the two versions may differ; None: all

    def ahead(self, version: int) -> None:
        self._copy(version, None, share=2)  # half of the threads: workers need cores too
        self._changed = _NONE

    def over(self, version: int, gradients: Sequence[Addend]) -> None:
        written = union_rows(gradients, self._first_row, self._rows)
        self._copy(version, written)
        self._changed = _NONE if written is None else written
        self._changes.mark(self._changed)

    def rows_to_write(self, gradients: Sequence[Addend]) -> Touched | None:
        return union_rows(gradients, self._first_row, self._rows)

    @property
    def written(self) -> Touched | None:
        return self._changed

    def _copy(self, version: int, but_not: Touched | None, *, share: int = 1) -> None:
        """Copies the table rows in which the two versions of the weights may differ, except the rows `but_not`.
        `share`: uses one in so many of the threads that are worth starting."""
        if self._changed is None:
            self._memory.copy_unchanged(version)
        elif len(self._changed) > 0:
            self._memory.copy_unchanged(version, self._changed, but_not=but_not, share=share)

    def forget(self) -> None:
        self._changed = None
        self._changes.mark_range(self._first_row, self._first_row + self._rows)
