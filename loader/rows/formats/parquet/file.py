"""Verifies, inspects and prints Parquet files without settings, whatever their columns are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from loader.command_line.json_line import json_line
from loader.errors import DataError
from loader.files.identity import identify
from loader.formats.file_tools import VerifyResult
from loader.formats.format import OnProgress
from loader.rows.formats.parquet.reader import query_file, read_row_group
from loader.rows.spellings import INTEGER
from loader.rows.statistics.columns import Column, ColumnStatistics
from loader.rows.statistics.verify import verify_rows

_DUMPED = 1000  # rows that are printed at once


def read_row_groups(path: Path, progress: OnProgress | None = None) -> Iterator[Any]:
    """Yields the file's schema, and then the table of each row group. Raises DataError."""
    (file,) = identify([path])
    count, schema = query_file(file, lambda opened: (opened.num_row_groups, opened.schema_arrow))
    yield schema
    for group in range(count):
        yield query_file(file, partial(read_row_group, group=group))
        if progress is not None:
            progress(file.size * (group + 1) // count, file.size)


def verify(path: Path, progress: OnProgress | None) -> VerifyResult:
    """Reads every row of a file, up to the first damage, and returns the result."""

    def counts() -> Iterator[tuple[int, DataError | None]]:
        there = read_row_groups(path, progress)
        next(there)
        for table in there:
            yield table.num_rows, None

    return verify_rows(str(path), counts())


def inspect(path: Path, progress: OnProgress | None) -> ColumnStatistics:
    """Reads every row of a file and returns statistics of its columns. Raises DataError."""
    there = read_row_groups(path, progress)
    columns = [Column(name) for name in next(there).names]
    entries = 0
    for table in there:
        entries += table.num_rows
        for column, chunked in zip(columns, table.columns, strict=True):
            _add(column, chunked)
    return ColumnStatistics(str(path), path.stat().st_size, entries, columns)


def dump(path: Path, limit: int | None) -> Iterator[bytes]:
    """Yields the rows as JSON objects, one line a row, in blocks of whole lines. Raises DataError."""
    there = read_row_groups(path)
    next(there)
    left = limit
    for table in there:
        for batch in table.slice(0, left).to_batches(_DUMPED):
            lines = (json_line(row, ascii_only=False, convert=str) for row in _printable(batch).to_pylist())
            yield "".join(lines).encode()
        if left is not None:
            left -= min(left, table.num_rows)
        if left == 0:
            return


def _printable(batch: Any) -> Any:
    """Returns the batch with times in nanoseconds as text and such durations as integers, since Python's own types stop
    at microseconds."""
    return batch.cast(pyarrow.schema([field.with_type(_printable_type(field.type)) for field in batch.schema]))


def _printable_type(kind: Any) -> Any:
    """Returns the type with times in nanoseconds, also inside of lists and structs, replaced by text, and such
    durations by int64."""
    types = pyarrow.types
    if types.is_struct(kind):
        return pyarrow.struct([field.with_type(_printable_type(field.type)) for field in kind])
    if types.is_fixed_size_list(kind):
        return pyarrow.list_(_printable_type(kind.value_type), kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind):
        return (pyarrow.list_ if types.is_list(kind) else pyarrow.large_list)(_printable_type(kind.value_type))
    if getattr(kind, "unit", None) != "ns":
        return kind
    return pyarrow.int64() if types.is_duration(kind) else pyarrow.string()


def _add(column: Column, chunked: Any) -> None:
    """Adds a row group's part of a column to the column's statistics."""
    kind = chunked.type
    types, compute = pyarrow.types, pyarrow.compute
    value = kind.value_type if types.is_dictionary(kind) else kind
    text_values = _is_text(value)
    if types.is_floating(kind):  # NaN is missing, as `Columns` has it
        chunked = compute.if_else(chunked.is_nan(), None, chunked)
    elif text_values:
        texts = chunked.cast(pyarrow.large_string())
        kind, chunked = texts.type, compute.if_else(compute.equal(texts, ""), None, texts)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        lengths = compute.list_value_length(chunked.cast(pyarrow.list_(kind.value_type)))
        inside = compute.list_flatten(chunked)
        numbers = _extremes(inside) if types.is_integer(kind.value_type) or types.is_floating(kind.value_type) else []
        column.add("list", chunked.null_count, numbers, compute.max(lengths).as_py())
        if _is_text(kind.value_type):
            column.spellings.add(_counts(inside))
        return
    if types.is_decimal(kind):
        chunked = chunked.cast(pyarrow.decimal256(kind.precision, kind.scale))  # other decimals lack `unique`
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind):
        column.add("number", chunked.null_count, _extremes(chunked.cast(pyarrow.float64(), safe=False)))
    elif types.is_null(kind):
        column.add("empty", chunked.null_count)
        return
    else:
        text = types.is_large_string(kind) or types.is_dictionary(kind)
        column.add("text" if text else str(kind), chunked.null_count)
        if types.is_nested(kind) or isinstance(kind, pyarrow.BaseExtensionType):  # pyarrow can't compare their values
            return
    if types.is_integer(value):
        column.spellings.add_plain(INTEGER, len(chunked) - chunked.null_count)
    elif text_values:
        column.spellings.add(_counts(chunked))
    values = chunked.unique()
    column.add_texts({str(value) for value in values.cast(_printable_type(kind)).to_pylist() if value is not None})


def _is_text(kind: Any) -> bool:
    types = pyarrow.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _counts(texts: Any) -> dict[str, int]:
    """Returns how often each text occurs."""
    counted = texts.cast(pyarrow.large_string()).drop_null().value_counts()
    return dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))


def _extremes(numbers: Any) -> list[float]:
    found = pyarrow.compute.min_max(numbers).as_py()
    return [] if found["min"] is None else [found["min"], found["max"]]
