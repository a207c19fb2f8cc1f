"""Verifies, inspects and prints text files with columns, without settings: with a header, columns separated by commas
(by tabs in .tsv files), any texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loader import _native
from loader.errors import DataChangedError, DataError
from loader.formats.file_tools import VerifyResult
from loader.formats.format import OnProgress
from loader.rows.formats.csv.table import blame_first_line, file_dialect, read_column_names
from loader.rows.settings import RowsConfig
from loader.rows.statistics.columns import Column, ColumnStatistics
from loader.rows.statistics.verify import verify_rows

_SETTINGS = RowsConfig()


@dataclass(frozen=True)
class Lines:
    """The rows of a chunk of a text file, as lines."""

    texts: Sequence[bytes]  # one row each, unchanged
    error: DataError | None  # the fault that follows the rows, if there is one


class CsvFile:
    """A text file with columns, opened without settings. Raises DataError for a file that can't be used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _native.LineFile(path)
        self.size = self._file.size
        self.cut = file_dialect(_SETTINGS, path.name)
        with blame_first_line(path):
            self.names, width = read_column_names(_SETTINGS, self.cut, self._file.first_line())
        # Hashes the first column to one feature, so that the rows are split and counted, but no value is checked.
        self._shape = _native.RowShape()
        self._shape.fields = [_native.RowField("rows", 0, 1, False, 1)]
        columns = _native.CsvColumns(self.cut)
        columns.width, columns.fields = width, [[0]]
        self._reader = _native.CsvReader([self._file], [columns], self._shape)

    def pieces(self, progress: OnProgress | None = None) -> Iterator[Lines]:
        """Yields the rows of each chunk, as lines, up to the first fault."""
        for piece in range(self._file.num_chunks):
            _, _, ((offsets, _, _),), fault = _native.read_rows(self._reader, piece, self._shape)
            lines = [line.removesuffix(b"\r") for line in self._file.text(piece).split(b"\n")]
            rows = [line for line in lines[1 if piece == 0 else 0 :] if line][: len(offsets) - 1]
            if fault is not None:
                kind = DataChangedError if fault[3] == "changed" else DataError
                yield Lines(rows, kind(fault[0], fault[1], fault[2]))
                return
            yield Lines(rows, None)
            if progress is not None:
                more = piece + 1 < self._file.num_chunks
                progress(self._file.offset(piece + 1) if more else self.size, self.size)


def verify(path: Path, progress: OnProgress | None) -> VerifyResult:
    """Reads every row of a file, up to the first damage, and returns the result."""

    def counts() -> Iterator[tuple[int, DataError | None]]:
        for piece in CsvFile(path).pieces(progress):
            yield len(piece.texts), piece.error

    return verify_rows(str(path), counts())


def inspect(path: Path, progress: OnProgress | None) -> ColumnStatistics:
    """Reads every row of a file and returns statistics of its columns. Raises DataError at damage."""
    file = CsvFile(path)
    columns = [Column(name) for name in file.names]
    entries = 0
    for piece in file.pieces(progress):
        if piece.error is not None:
            raise piece.error
        entries += len(piece.texts)
        for column, texts in zip(columns, zip(*map(file.cut.split, piece.texts), strict=True), strict=False):
            _add(column, texts)
    return ColumnStatistics(str(path), file.size, entries, columns)


def dump(path: Path, limit: int | None) -> Iterator[bytes]:
    """Yields the rows as they are in the file, without the header, in blocks of whole lines. Raises DataError at
    damage, after the rows before it."""
    left = limit
    for piece in CsvFile(path).pieces():
        lines = piece.texts[:left]
        if left is not None:
            left -= len(lines)
        if lines:
            yield b"".join(line + b"\n" for line in lines)
        if left == 0:
            return
        if piece.error is not None:
            raise piece.error


def _add(column: Column, texts: Sequence[bytes]) -> None:
    """Adds the texts of a chunk to a column's statistics."""
    counts = {text.decode(): count for text, count in Counter(texts).items()}
    missing = counts.pop("", 0)
    there = set(counts)
    column.add_texts(there)
    column.spellings.add(counts)
    longest = max(map(len, there), default=None)
    try:
        numbers = [float(text) for text in there if "_" not in text]
    except ValueError:
        numbers = []
    column.add("empty" if not there else "number" if len(numbers) == len(there) else "text", missing, numbers, longest)
