"""Copies selected entries of a chunk into another file: whole units (records, games or chains) where formats allow it,
else entry by entry."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.chess.positions.file import raise_fault
from loader.chess.positions.format import PositionFormat
from loader.chess.positions.input import Changes, SourceFile, split_into_units
from loader.chess.positions.units import UnitBlock, concatenate
from loader.formats.errors import Fault

_ALL = 2**64 - 1
Records = npt.NDArray[np.uint8]  # [entries, 32]
Chosen = npt.NDArray[np.uint8]  # [entries]: not 0 for entries that are chosen


class Chunk:
    """A chunk of a file, read from disk once, of which selected entries are written in a target format.

    With `marks`, entries that are not selected stay, and lose their score. All methods raise DataError at damage.
    """

    def __init__(self, source: SourceFile, number: int, target: PositionFormat, *, marks: bool = False) -> None:
        """Reads chunk `number` of the source. Its units are kept as encoded if `target` is the format of the file,
        stores positions one by one, and `marks` is not set. Else the chunk is decoded entry by entry."""
        self._target, self._marks = target, marks
        self._units: UnitBlock | None = None
        self._walk: _native.ChunkWalk | None = None
        self.changes = Changes()  # counts of what the target format changed in entries taken so far
        if source.format == target and not target.keeps_games and not marks:
            self._units = source.read_units(number)
        else:
            self._walk = source.walk(number)
            if self._walk is None:
                self._units = concatenate([])

    def records(self) -> Records:
        """Decodes all entries of the chunk. Returns them as records, [entries, 32] bytes."""
        if self._walk is None:
            assert self._units is not None
            return _native.decode_units(self._target.codec, self._units.bytes)
        records = self._walk.records(_ALL)
        raise_fault(cast("Fault | None", self._walk.fault))
        self._walk.rewind()
        return records

    def take(self, chosen: Chosen) -> UnitBlock:
        """Returns the chosen entries as units of the target format. With `marks`, returns all entries, those that are
        not chosen without their score. Can be called once.

        `chosen` has one byte for each entry of the chunk: 0 for those that are not chosen.
        """
        if self._walk is None:
            assert self._units is not None
            return self._units.take(np.flatnonzero(chosen))
        writer = self._target.make_writer()
        some = _native.ChosenWriter(writer, cast(Any, chosen), self._marks)
        raise_fault(cast("Fault | None", self._walk.copy_to(some)))
        writer.finish()
        self.changes.update(dict(writer.changes))
        return split_into_units(self._target, writer.take())
