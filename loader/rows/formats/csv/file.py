"""Verifies, inspects and prints text files with columns, without settings: with a header, columns separated by commas
(by tabs in .tsv files), any texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loader import _native
from loader.errors import DataError
from loader.formats.file_tools import VerifyResult
from loader.formats.format import OnProgress
from loader.rows.chunks import to_data_error
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
        self.dialect = file_dialect(_SETTINGS, path.name)
        with blame_first_line(path):
            self.names, width = read_column_names(_SETTINGS, self.dialect, self._file.first_line())
        # Hashes the first column to one feature, so that the rows are split and counted, but no value is checked.
        self._shape = _native.RowShape()
        self._shape.fields = [_native.RowField("rows", 0, 1, False, 1)]
        columns = _native.CsvColumns(self.dialect)
        columns.width, columns.fields = width, [[0]]
        self._reader = _native.CsvReader([self._file], [columns], self._shape)

    def chunks(self, progress: OnProgress | None = None) -> Iterator[Lines]:
        """Yields the rows of each chunk, as lines, up to the first fault."""
        num_chunks = self._file.num_chunks
        for chunk in range(num_chunks):
            _, _, ((offsets, _, _),), fault = _native.read_rows(self._reader, chunk, self._shape)
            num_rows = len(offsets) - 1
            lines = [line.removesuffix(b"\r") for line in self._file.text(chunk).split(b"\n")]
            if chunk == 0:
                del lines[0]  # the header
            rows = [line for line in lines if line][:num_rows]
            if fault is not None:
                yield Lines(rows, to_data_error(fault))
                return
            yield Lines(rows, None)
            if progress is not None:
                done = self._file.offset(chunk + 1) if chunk + 1 < num_chunks else self.size
                progress(done, self.size)


def verify(path: Path, progress: OnProgress | None) -> VerifyResult:
    """Reads every row of a file, up to the first damage, and returns the result."""

    def count_rows() -> Iterator[tuple[int, DataError | None]]:
        for chunk in CsvFile(path).chunks(progress):
            yield len(chunk.texts), chunk.error

    return verify_rows(str(path), count_rows())


def inspect(path: Path, progress: OnProgress | None) -> ColumnStatistics:
    """Reads every row of a file and returns statistics of its columns. Raises DataError at damage."""
    file = CsvFile(path)
    columns = [Column(name) for name in file.names]
    entries = 0
    for chunk in file.chunks(progress):
        if chunk.error is not None:
            raise chunk.error
        entries += len(chunk.texts)
        rows = [file.dialect.split(line) for line in chunk.texts]
        # Nothing is added of a chunk without rows, which has no columns either.
        for column, texts in zip(columns, zip(*rows, strict=True), strict=False):
            _add_to_statistics(column, texts)
    return ColumnStatistics(str(path), file.size, entries, columns)


def dump(path: Path, limit: int | None) -> Iterator[bytes]:
    """Yields the rows as they are in the file, without the header, in blocks of whole lines. Raises DataError at
    damage, after the rows before it."""
    remaining = limit
    for chunk in CsvFile(path).chunks():
        lines = chunk.texts[:remaining]
        if remaining is not None:
            remaining -= len(lines)
        if lines:
            yield b"".join(line + b"\n" for line in lines)
        if remaining == 0:
            return
        if chunk.error is not None:
            raise chunk.error


def _add_to_statistics(column: Column, texts: Sequence[bytes]) -> None:
    """Adds the texts of a chunk to a column's statistics."""
    counts = {text.decode(): count for text, count in Counter(texts).items()}
    missing = counts.pop("", 0)
    distinct = set(counts)
    column.add_texts(distinct)
    column.spellings.add(counts)
    numbers = _parse_numbers(distinct)
    if not distinct:
        kind = "empty"
    elif len(numbers) == len(distinct):
        kind = "number"
    else:
        kind = "text"
    column.add(kind, missing, numbers, longest=max(map(len, distinct), default=None))


def _parse_numbers(texts: Iterable[str]) -> list[float]:
    """Returns the numbers that the texts stand for, or an empty list if a text is no number."""
    try:
        return [float(text) for text in texts if "_" not in text]  # float() allows 1_000
    except ValueError:
        return []
