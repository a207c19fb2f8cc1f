"""Text files with columns, opened for the stream."""

from __future__ import annotations

import csv
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from loader.errors import DataError
from loader.files.identity import DataFile
from loader.formats.csv.lines import LONGEST_LINE, Lines
from loader.formats.csv.table import Table
from loader.formats.format import Place
from loader.formats.opening import usable
from loader.rows.block import Rows
from loader.rows.columns import LAYOUTS
from loader.rows.hashing import hash_function
from loader.rows.settings import RowsConfig


class CsvReader:
    """`loader.formats.format.Reader`: a chunk is a block of lines."""

    def __init__(self, files: Sequence[DataFile], settings: RowsConfig, *, may_grow: bool, skip_damaged: bool) -> None:
        hash_function()
        csv.field_size_limit(LONGEST_LINE)
        self.name = ", ".join(str(file.path) for file in files[:3])
        opened = usable(
            [file for file in files if file.size],
            lambda file: _File(Lines(file, may_grow=may_grow), settings),
            skip_damaged=skip_damaged,
        )
        self._chunks = [(file, block) for file in opened for block in range(file.lines.num_blocks)]

    @property
    def num_chunks(self) -> int:
        return len(self._chunks)

    def place(self, chunk: int) -> Place:
        file, block = self._chunks[chunk]
        return Place(file.lines.file.path, block)

    def read(self, chunk: int) -> Iterator[Rows]:
        file, block = self._chunks[chunk]
        yield from file.read(block)


class _File:
    def __init__(self, lines: Lines, settings: RowsConfig) -> None:
        """Raises DataError for a header that lacks what the settings ask for."""
        self.lines = lines
        columns = settings.columns
        layout = LAYOUTS.get(columns.layout)
        tabs = lines.file.path.name.endswith(".tsv")
        self._delimiter = columns.delimiter or (layout.delimiter if layout else "\t" if tabs else ",")
        self._quote = columns.quote if layout is None else layout.quote
        self._header = columns.header and layout is None
        try:
            first = self._split(lines.first())
            names = layout.names if layout else tuple(name.strip() for name in first) if self._header else ()
            self._table = Table(settings, names, len(names) or len(first))
        except ValueError as error:
            if isinstance(error, DataError):
                raise
            raise DataError(lines.file.path, f"line 1: {error}") from None

    def read(self, block: int) -> Iterator[Rows]:
        """Raises DataError with the number of the line, after the rows before it."""
        texts = self.lines.block(block).removesuffix(b"\n").split(b"\n")
        skipped = 1 if self._header and block == 0 else 0
        there = [(number, text) for number, text in enumerate(texts) if number >= skipped and text not in (b"", b"\r")]
        good: list[list[str]] = []
        try:
            for _, text in there:
                good.append(self._split(text.removesuffix(b"\r")))
            rows = self._table.rows(good) if good else None
        except ValueError as error:
            good, reason = self._up_to_fault(good, str(error))
            if good:
                yield self._table.rows(good)
            line = self.lines.lines_before(block) + there[len(good)][0] + 1
            raise DataError(self.lines.file.path, f"line {line}: {reason}") from None
        if rows is not None:
            yield rows

    def _up_to_fault(self, lines: list[list[str]], reason: str) -> tuple[list[list[str]], str]:
        """The lines before the first that is none, and what is wrong with that one; `reason` if all are good."""
        good = bisect_left(range(1, len(lines) + 1), True, key=lambda count: bool(self._fault(lines[:count])))
        return lines[:good], self._fault(lines[good : good + 1]) or reason

    def _fault(self, lines: list[list[str]]) -> str:
        """What is wrong with the lines; empty if nothing is."""
        try:
            if lines:
                self._table.rows(lines)
        except ValueError as error:
            return str(error)
        return ""

    def _split(self, line: bytes) -> list[str]:
        """Raises ValueError."""
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"byte {error.start} is no UTF-8 text") from None
        if not self._quote or self._quote not in text:
            return text.split(self._delimiter)
        try:
            found = csv.reader([text], delimiter=self._delimiter, quotechar=self._quote, strict=True)
            return next(found)
        except csv.Error as error:
            if "unexpected end" in str(error):
                raise ValueError(
                    "quoted text does not end on its line; text with line breaks can't be read: write them as spaces, "
                    'or, if quotes are letters here, set data.rows.columns.quote = ""'
                ) from None
            raise ValueError(str(error)) from None
