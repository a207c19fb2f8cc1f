"""A format of a user's own: a line `FEN | move | score | ply | result` each, in chunks of LINES lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loader.chess.positions.entry import Entry
from loader.errors import DataError
from loader.files.identity import DataFile
from loader.formats.format import Place

FAMILY = "chess"
SUFFIXES = (".txt",)
LINES = 50


@dataclass(frozen=True)
class Chunk:
    place: Place
    lines: tuple[bytes, ...]


class TextReader:
    def __init__(self, files: Sequence[DataFile]) -> None:
        self._chunks = [chunk for file in files for chunk in _chunks(file)]

    @property
    def name(self) -> str:
        return str(self._chunks[0].place.file) if self._chunks else "no file"

    @property
    def num_chunks(self) -> int:
        return len(self._chunks)

    def place(self, chunk: int) -> Place:
        return self._chunks[chunk].place

    def read(self, chunk: int) -> Iterator[Entry]:
        stored = self._chunks[chunk]
        offset = stored.place.offset or 0
        for line in stored.lines:
            try:
                fen, move, score, ply, result = line.decode().split(" | ")
                yield Entry(fen, move, int(score), int(ply), int(result))
            except ValueError as error:
                raise DataError(stored.place.file, str(error), offset) from None
            offset += len(line)


def recognizes(head: bytes) -> bool:
    return b" | " in head


def open_files(files: Sequence[DataFile], may_grow: bool, skip_damaged: bool) -> TextReader:  # noqa: ARG001
    return TextReader(files)


def write_line(entry: Entry) -> str:
    return f"{entry.fen} | {entry.move} | {entry.score} | {entry.ply} | {entry.result}\n"


def _chunks(file: DataFile) -> Iterator[Chunk]:
    lines = file.path.read_bytes()[: file.size].splitlines(keepends=True)
    offset = 0
    for number, first in enumerate(range(0, len(lines), LINES)):
        part = tuple(lines[first : first + LINES])
        yield Chunk(Place(file.path, number, offset), part)
        offset += sum(map(len, part))
