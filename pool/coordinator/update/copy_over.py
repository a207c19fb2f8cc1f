"""Copies numbers that the optimizer does not write from the old version of the weights to the new one: as far as it can
be known before the gradients are, while the workers compute them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from pool.coordinator.update.changed_rows import ChangedRows
from pool.exchange.interface import PieceMemory
from pool.kernels.fold import Addend, Touched, union

_NONE: Touched = np.zeros(0, np.uint32)


class CarryOver(Protocol):
    """The copying of one part's unchanged numbers into the next version."""

    def ahead(self, version: int, /) -> None:
        """The version is complete, and its gradients are still to come: copies what `over` would have to. May be left
        out."""

    def over(self, version: int, gradients: Sequence[Addend], /) -> None:
        """Before the optimizer steps from that version with these gradients: copies what it needs or leaves alone."""

    def rows_to_write(self, gradients: Sequence[Addend], /) -> Touched | None:
        """The rows that these gradients define, for an optimizer that writes no others; None: it writes all."""

    @property
    def written(self) -> Touched | None:
        """After `over`: the rows that the optimizer writes; None: any."""

    def forget(self) -> None:
        """The two versions may differ in any row."""


class StepsInPlace:
    """Any optimizer of torch: it changes a copy."""

    written = None

    def __init__(self, memory: PieceMemory) -> None:
        self._memory = memory
        self._equal = False  # the two versions

    def ahead(self, version: int) -> None:
        self._memory.copy_over(version)
        self._equal = True

    def over(self, version: int, _: Sequence[Addend]) -> None:
        if not self._equal:
            self._memory.copy_over(version)
        self._equal = False

    def rows_to_write(self, _: Sequence[Addend]) -> Touched | None:
        return None

    def forget(self) -> None:
        self._equal = False


class WritesAll:
    """It reads the old version and writes all of the new one, if there is a gradient."""

    written = None

    def __init__(self, memory: PieceMemory) -> None:
        self._memory = memory

    def ahead(self, version: int) -> None:
        pass

    def over(self, version: int, gradients: Sequence[Addend]) -> None:
        if not gradients:
            self._memory.copy_over(version)

    def rows_to_write(self, _: Sequence[Addend]) -> Touched | None:
        return None

    def forget(self) -> None:
        pass


class WritesTouchedRows:
    """It writes the rows of a table that the gradients define. The rows that the step before has written are copied
    ahead; or, once the gradients are there, only those that it does not write again."""

    def __init__(self, memory: PieceMemory, rows: int, changes: ChangedRows) -> None:
        """Makes that of a table, of which the part has so many rows; `changes`: to be told."""
        self._memory = memory
        self._first_row = memory.first_row
        self._rows = rows
        self._changes = changes
        self._changed: Touched | None = None  # rows in which the two versions may differ; None: all

    def ahead(self, version: int) -> None:
        self._copy(version, None, share=2)  # workers need cores, too
        self._changed = _NONE

    def over(self, version: int, gradients: Sequence[Addend]) -> None:
        written = union(gradients, self._first_row, self._rows)
        self._copy(version, written)
        self._changed = _NONE if written is None else written
        self._changes.mark(self._changed)

    def rows_to_write(self, gradients: Sequence[Addend]) -> Touched | None:
        return union(gradients, self._first_row, self._rows)

    @property
    def written(self) -> Touched | None:
        return self._changed

    def _copy(self, version: int, but_not: Touched | None, *, share: int = 1) -> None:
        """Copies what may differ; `share`: of the threads that are worth starting one in so many."""
        if self._changed is None:
            self._memory.copy_over(version)
        elif len(self._changed) > 0:
            self._memory.copy_over(version, self._changed, but_not=but_not, share=share)

    def forget(self) -> None:
        self._changed = None
        self._changes.mark_range(self._first_row, self._first_row + self._rows)
