"""A chunk of a file of which some entries are written: whole units where they can be, else entry by entry."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.chess.positions.file import raise_fault
from loader.chess.positions.format import PositionFormat
from loader.chess.positions.input import Changes, SourceFile, units_of_file
from loader.chess.positions.units import UnitBlock, joined
from loader.formats.errors import Fault

_ALL = 2**64 - 1
Records = npt.NDArray[np.uint8]  # [entries, 32]
Chosen = npt.NDArray[np.uint8]  # [entries]: not 0 for those that are


class Chunk:
    """One of a file, read from disk once where that matters. All of it raises DataError.

    `marks`: entries that are not chosen lose their score, and are not left out.
    """

    def __init__(self, source: SourceFile, number: int, target: PositionFormat, *, marks: bool = False) -> None:
        self._target, self._marks = target, marks
        self._units: UnitBlock | None = None
        self._walk: _native.ChunkWalk | None = None
        self.changes = Changes()  # of what has been taken
        if source.format == target and not target.keeps_games and not marks:
            self._units = source.read_units(number)
        else:
            self._walk = source.walk(number)
            if self._walk is None:
                self._units = joined([])

    def records(self) -> Records:
        if self._walk is None:
            assert self._units is not None
            return _native.decode_units(self._target.codec, self._units.bytes)
        records = self._walk.records(_ALL)
        raise_fault(cast("Fault | None", self._walk.fault))
        self._walk.rewind()
        return records

    def take(self, chosen: Chosen) -> UnitBlock:
        """Returns the chosen entries in the target's format; with `marks` all, the others without their score. To be
        called once."""
        if self._walk is None:
            assert self._units is not None
            return self._units.take(np.flatnonzero(chosen))
        writer = self._target.make_writer()
        some = _native.ChosenWriter(writer, cast(Any, chosen), self._marks)
        raise_fault(cast("Fault | None", self._walk.copy_to(some)))
        writer.finish()
        self.changes.update(dict(writer.changes))
        return units_of_file(self._target, writer.take())
