"""Writes files of predictions: lines of text, or a Parquet table."""

from __future__ import annotations

import importlib.util
import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from loader.files.endings import check_output_ending
from pool.errors import ConfigError

PARQUET = ".parquet"
ENDINGS = (".tsv", ".csv", ".txt", PARQUET)
_MIN_GROUP_ROWS = 1 << 17  # smallest number of rows in a Parquet row group
_DIGITS = {np.dtype(np.float32): "%.9g", np.dtype(np.float64): "%.17g"}  # enough digits to read the same number back
_FORBIDDEN = {"\t": re.compile(r"[\t\r\n]"), ",": re.compile(r"[\r\n]")}  # what a field can't hold, by separator

Array = npt.NDArray[Any]
WriteBytes = Callable[[bytes], object]


class PredictionWriter(Protocol):
    """Writes predictions to a file, batch by batch."""

    def add(self, numbers: Array, ids: Sequence[str] | None) -> None:
        """Writes the predictions [samples, k] of one batch, with the samples' ids. Raises ConfigError for an id that
        the format can't hold."""

    def close(self) -> None:
        """Writes what is still buffered, and ends the file."""


def check_output_name(path: Path) -> str:
    """Returns the ending of an output file's name. Raises UsageError if it names another format, and ConfigError if the
    package for the format is missing."""
    ending = check_output_ending(path, "predictions", ENDINGS)
    if ending == PARQUET and importlib.util.find_spec("pyarrow") is None:
        raise ConfigError(f"{path}: needs the package pyarrow: pip install 'sparsepool[parquet]'")
    return ending


def open_writer(ending: str, write: WriteBytes, ids: str | None, *, header: bool) -> PredictionWriter:
    """Returns the writer for files with this ending. `write` takes the file's bytes in order. `ids` is the name of the
    column of ids, or None. `header` says whether text begins with a line of names."""
    if ending == PARQUET:
        return _Table(write, ids)
    return _Lines(write, "," if ending == ".csv" else "\t", ids, header=header)


class _Lines:
    """Writes text: for each sample a line with its id, if there are ids, and its numbers."""

    def __init__(self, write: WriteBytes, separator: str, ids: str | None, *, header: bool) -> None:
        self._write = write
        self._separator = separator
        self._ids = ids
        self._needs_header = header

    def add(self, numbers: Array, ids: Sequence[str] | None) -> None:
        if self._needs_header:
            self._write_header(numbers.shape[1])
            self._needs_header = False
        row_format = self._separator.join([_DIGITS.get(numbers.dtype, "%d")] * numbers.shape[1])
        lines = [f"{row_format % tuple(row)}\n" for row in numbers.tolist()]
        if ids is not None:
            prefixes = [self._quote(text) + self._separator for text in ids]
            lines = [prefix + line for prefix, line in zip(prefixes, lines, strict=True)]
        self._write("".join(lines).encode())

    def _write_header(self, columns: int) -> None:
        """Writes the line of names."""
        names = _column_names(columns)
        if self._ids is not None:
            names.insert(0, self._quote(self._ids))
        self._write((self._separator.join(names) + "\n").encode())

    def close(self) -> None:
        """Does nothing, as `add` writes at once."""

    def _quote(self, text: str) -> str:
        """Returns an id as a field of the line, quoted where CSV needs it. Raises ConfigError if no line can hold
        it."""
        if _FORBIDDEN[self._separator].search(text):
            forbidden = "a tab or a line end" if self._separator == "\t" else "a line end"
            raise ConfigError(f"--id: {text!r} has {forbidden} in it, which a line of the output can't hold")
        if self._separator == "," and ("," in text or '"' in text):
            return '"' + text.replace('"', '""') + '"'
        return text


class _Table:
    """Writes a Parquet table: for each sample a row with its id as text, if there are ids, and its numbers."""

    def __init__(self, write: WriteBytes, ids: str | None) -> None:
        self._sink = _Sink(write)
        self._id_name = ids
        self._numbers: list[Array] = []
        self._ids: list[str] = []
        self._rows = 0
        self._writer: Any = None

    def add(self, numbers: Array, ids: Sequence[str] | None) -> None:
        self._numbers.append(numbers)
        self._ids += ids or []
        self._rows += len(numbers)
        if self._rows >= _MIN_GROUP_ROWS:
            self._write_group()

    def close(self) -> None:
        if self._rows or self._writer is None:
            self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        """Writes the rows collected so far as one row group."""
        import pyarrow.parquet  # late: an extra

        numbers = np.concatenate(self._numbers) if self._numbers else np.empty((0, 1), np.float32)
        names = _column_names(numbers.shape[1])
        if self._id_name in names:
            raise ConfigError(f"--id {self._id_name}: the column of predictions has that name")
        columns: dict[str, Any] = {}
        if self._id_name is not None:
            columns[self._id_name] = pyarrow.array(self._ids, pyarrow.string())
        columns |= {name: pyarrow.array(column) for name, column in zip(names, numbers.T, strict=True)}
        table = pyarrow.table(columns)
        if self._writer is None:
            self._writer = pyarrow.parquet.ParquetWriter(self._sink, table.schema)
        self._writer.write_table(table)
        self._numbers, self._ids, self._rows = [], [], 0


class _Sink(io.RawIOBase):
    """Adapts `write` to the file object that pyarrow writes to."""

    def __init__(self, write: WriteBytes) -> None:
        self._write_bytes = write
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._write_bytes(bytes(data))
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        return self._size


def _column_names(columns: int) -> list[str]:
    if columns == 1:
        return ["prediction"]
    return [f"prediction_{number}" for number in range(columns)]
