"""Verifies, inspects and prints Parquet files without settings, whatever their columns are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.compute
import pyarrow.parquet
from pyarrow import compute, types

from loader.command_line.json_line import json_line
from loader.errors import DataError
from loader.files.identity import identify
from loader.formats.file_tools import VerifyResult
from loader.formats.format import OnProgress
from loader.rows.formats.parquet.reader import query_file, read_row_group
from loader.rows.spellings import INTEGER
from loader.rows.statistics.columns import Column, ColumnStatistics
from loader.rows.statistics.verify import verify_rows

_ROWS_PER_BLOCK = 1000  # rows that are printed at once


def read_row_groups(path: Path, progress: OnProgress | None = None) -> Iterator[Any]:
    """Yields the file's schema, and then the table of each row group. Raises DataError."""
    (file,) = identify([path])
    num_groups, schema = query_file(file, lambda opened: (opened.num_row_groups, opened.schema_arrow))
    yield schema
    for group in range(num_groups):
        yield query_file(file, partial(read_row_group, group=group))
        if progress is not None:
            progress(file.size * (group + 1) // num_groups, file.size)


def verify(path: Path, progress: OnProgress | None) -> VerifyResult:
    """Reads every row of a file, up to the first damage, and returns the result."""

    def count_rows() -> Iterator[tuple[int, DataError | None]]:
        tables = read_row_groups(path, progress)
        next(tables)  # the schema
        for table in tables:
            yield table.num_rows, None

    return verify_rows(str(path), count_rows())


def inspect(path: Path, progress: OnProgress | None) -> ColumnStatistics:
    """Reads every row of a file and returns statistics of its columns. Raises DataError."""
    tables = read_row_groups(path, progress)
    schema = next(tables)
    columns = [Column(name) for name in schema.names]
    entries = 0
    for table in tables:
        entries += table.num_rows
        for column, values in zip(columns, table.columns, strict=True):
            _add_to_statistics(column, values)
    return ColumnStatistics(str(path), path.stat().st_size, entries, columns)


def dump(path: Path, limit: int | None) -> Iterator[bytes]:
    """Yields the rows as JSON objects, one line a row, in blocks of whole lines. Raises DataError."""
    tables = read_row_groups(path)
    next(tables)  # the schema
    remaining = limit
    for table in tables:
        for batch in table.slice(0, remaining).to_batches(_ROWS_PER_BLOCK):
            lines = (json_line(row, ascii_only=False, convert=str) for row in _printable(batch).to_pylist())
            yield "".join(lines).encode()
        if remaining is not None:
            remaining -= min(remaining, table.num_rows)
        if remaining == 0:
            return


def _printable(batch: Any) -> Any:
    """Returns the batch with times in nanoseconds as text and such durations as integers, since Python's own types stop
    at microseconds."""
    return batch.cast(pyarrow.schema([field.with_type(_printable_type(field.type)) for field in batch.schema]))


def _printable_type(kind: Any) -> Any:
    """Returns the type with times in nanoseconds, also inside of lists and structs, replaced by text, and such
    durations by int64."""
    if types.is_struct(kind):
        return pyarrow.struct([field.with_type(_printable_type(field.type)) for field in kind])
    if types.is_fixed_size_list(kind):
        return pyarrow.list_(_printable_type(kind.value_type), kind.list_size)
    if types.is_list(kind):
        return pyarrow.list_(_printable_type(kind.value_type))
    if types.is_large_list(kind):
        return pyarrow.large_list(_printable_type(kind.value_type))
    if getattr(kind, "unit", None) != "ns":
        return kind
    return pyarrow.int64() if types.is_duration(kind) else pyarrow.string()


def _add_to_statistics(column: Column, values: Any) -> None:
    """Adds the values of a column in one row group to the column's statistics."""
    kind = values.type
    if _is_list(kind):
        _add_lists(column, values)
    elif types.is_null(kind):
        column.add("empty", values.null_count)
    elif _is_number(kind):
        _add_numbers(column, values)
    elif _is_text(kind.value_type if types.is_dictionary(kind) else kind):
        texts = values.cast(pyarrow.large_string())
        texts = compute.if_else(compute.equal(texts, ""), None, texts)  # an empty text is missing
        column.add("text", texts.null_count)
        column.spellings.add(_count_texts(texts))
        _add_distinct(column, texts)
    else:
        _add_others(column, values)


def _add_lists(column: Column, lists: Any) -> None:
    """Adds lists: their lengths, and the range of their numbers or the spellings of their texts."""
    value_type = lists.type.value_type
    lengths = compute.list_value_length(lists.cast(pyarrow.list_(value_type)))
    values = compute.list_flatten(lists)
    extremes = _extremes(values) if types.is_integer(value_type) or types.is_floating(value_type) else []
    column.add("list", lists.null_count, extremes, compute.max(lengths).as_py())
    if _is_text(value_type):
        column.spellings.add(_count_texts(values))


def _add_numbers(column: Column, numbers: Any) -> None:
    kind = numbers.type
    if types.is_floating(kind):
        numbers = compute.if_else(numbers.is_nan(), None, numbers)  # NaN is missing, as `Columns` has it
    elif types.is_decimal(kind):
        numbers = numbers.cast(pyarrow.decimal256(kind.precision, kind.scale))  # other decimals lack `unique`
    column.add("number", numbers.null_count, _extremes(numbers.cast(pyarrow.float64(), safe=False)))
    if types.is_integer(kind):
        column.spellings.add_plain(INTEGER, len(numbers) - numbers.null_count)
    _add_distinct(column, numbers)


def _add_others(column: Column, values: Any) -> None:
    """Adds values of a type that is neither numbers, texts nor lists."""
    kind = values.type
    column.add("text" if types.is_dictionary(kind) else str(kind), values.null_count)
    if types.is_nested(kind) or isinstance(kind, pyarrow.BaseExtensionType):  # pyarrow can't compare their values
        return
    if types.is_dictionary(kind) and types.is_integer(kind.value_type):
        column.spellings.add_plain(INTEGER, len(values) - values.null_count)
    _add_distinct(column, values)


def _add_distinct(column: Column, values: Any) -> None:
    """Adds the different values of a column, as text."""
    distinct = values.unique()
    printable = distinct.cast(_printable_type(distinct.type)).to_pylist()
    column.add_texts({str(value) for value in printable if value is not None})


def _is_list(kind: Any) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_number(kind: Any) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def _is_text(kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _count_texts(texts: Any) -> dict[str, int]:
    """Returns how often each text occurs."""
    counts = texts.cast(pyarrow.large_string()).drop_null().value_counts()
    return dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True))


def _extremes(numbers: Any) -> list[float]:
    """Returns the smallest and the largest number, or an empty list if there are none."""
    extremes = compute.min_max(numbers).as_py()
    return [] if extremes["min"] is None else [extremes["min"], extremes["max"]]
