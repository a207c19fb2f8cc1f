"""Files of one format, opened for the stream. The work is done by the native part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from loader import _native
from loader.chess.positions.entry import Entry, entry_of
from loader.chess.positions.format import PositionFormat
from loader.chess.positions.opening import KEPT, IllegalRule, open_file
from loader.chess.positions.verdict import Judged, illegal_of
from loader.errors import DataChangedError, DataError
from loader.files.identity import DataFile
from loader.formats.errors import Fault
from loader.formats.format import Place
from loader.formats.opening import usable

LINES_AT_ONCE = 4096


class EntriesReader:
    """`loader.formats.format.Reader`."""

    def __init__(
        self,
        found: PositionFormat,
        files: Sequence[DataFile],
        *,
        may_grow: bool,
        skip_damaged: bool,
        needs_ply: bool = False,
        illegal: IllegalRule = KEPT,
    ) -> None:
        def open_one(file: DataFile) -> tuple[DataFile, _native.EntryFile]:
            return file, open_file(found, file, may_grow=may_grow, needs_ply=needs_ply, illegal=illegal)

        opened = usable(files, open_one, skip_damaged=skip_damaged)
        self._chunks = [(file, known, chunk) for known, file in opened for chunk in range(file.num_chunks)]
        self.native = _native.FileReader([file for _, file in opened])

    @property
    def name(self) -> str:
        return self.native.name

    @property
    def num_chunks(self) -> int:
        return self.native.num_chunks

    def place(self, chunk: int) -> Place:
        file, known, number = self._chunks[chunk]
        return Place(known.path, number, file.offset(number))

    def read(self, chunk: int) -> Iterator[Entry]:
        file, _, number = self._chunks[chunk]
        walk = _native.ChunkWalk(file, number)
        while lines := walk.lines(LINES_AT_ONCE):
            yield from map(entry_of, lines.decode().splitlines())
        raise_fault(fault_behind(walk))

    def count(self, chunk: int) -> int:
        file, _, number = self._chunks[chunk]
        return _native.ChunkWalk(file, number).count()


def fault_behind(walk: _native.ChunkWalk) -> Fault | None:
    """What is wrong behind what was read."""
    return cast("Fault | None", walk.fault)


def error_of(fault: Fault) -> DataError:
    file, reason, offset, kind = fault
    return (DataChangedError if kind == "changed" else DataError)(file, reason, offset)


def judge_chunk(file: _native.EntryFile, chunk: int) -> Judged:
    """Judges a chunk of a file that was opened with LEFT_OUT."""
    walk = _native.ChunkWalk(file, chunk)
    entries, fault = walk.count(), fault_behind(walk)
    return Judged(entries, illegal_of(walk.illegal), None if fault is None else error_of(fault))


def raise_fault(fault: Fault | None) -> None:
    """Raises what a native reader says, if that is anything."""
    if fault is not None:
        raise error_of(fault)
