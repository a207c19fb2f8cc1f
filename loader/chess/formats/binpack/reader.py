"""Binpack files, opened for the stream. The work is done by the native part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loader import _native
from loader.chess.formats.binpack.file import LINES_AT_ONCE, damage_error
from loader.chess.positions.entry import Entry, entry_of
from loader.errors import DataError
from loader.files.identity import DataFile
from loader.formats.format import Place


class BinpackReader:
    """`loader.formats.format.Reader`. A damaged chunk header and what is behind it count as one chunk."""

    def __init__(
        self, files: Sequence[DataFile], *, may_grow: bool, skip_damaged: bool, on_illegal: str | None = None
    ) -> None:
        self._files = [
            (known, _native.BinpackFile(known.path, known.identity, may_grow, on_illegal)) for known in files
        ]
        usable = any(file.num_chunks for _, file in self._files)
        for known, file in self._files:
            # A file damaged further on is used up to there; one with nothing before it can't be meant.
            if file.num_chunks == 0 and file.header_damage is not None and not (usable and skip_damaged):
                raise DataError(known.path, file.header_damage.reason, file.header_damage.offset)
        self._places = list(_places(self._files))
        self.native = _native.BinpackReader([file for _, file in self._files])

    @property
    def name(self) -> str:
        return self.native.name

    @property
    def num_chunks(self) -> int:
        return self.native.num_chunks

    def place(self, chunk: int) -> Place:
        return self._places[chunk][1]

    def read(self, chunk: int) -> Iterator[Entry]:
        file, place = self._places[chunk]
        if file.header_damage is not None and place.chunk == file.num_chunks:
            raise damage_error(place.file, file.header_damage, in_chunk=False)
        printer = _native.ChunkPrinter(file, place.chunk)
        while lines := printer.lines(LINES_AT_ONCE):
            yield from map(entry_of, lines.decode().splitlines())
        if printer.damage is not None:
            raise damage_error(place.file, printer.damage, in_chunk=True)

    def count(self, chunk: int) -> int:
        file, place = self._places[chunk]
        return file.count(place.chunk)[0] if place.chunk < file.num_chunks else 0


def whole_size(file: DataFile) -> int:
    opened = _native.BinpackFile(file.path, file.identity, may_grow=True)
    if opened.header_damage is None or not opened.ends_in_a_chunk:
        return file.size
    return opened.header_damage.offset


def _places(files: Sequence[tuple[DataFile, _native.BinpackFile]]) -> Iterator[tuple[_native.BinpackFile, Place]]:
    for known, file in files:
        for chunk in range(file.num_chunks):
            yield file, Place(known.path, chunk, file.chunk(chunk)[0])
        if file.header_damage is not None:
            yield file, Place(known.path, file.num_chunks, file.header_damage.offset)
