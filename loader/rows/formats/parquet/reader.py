"""Opens Parquet files for the stream."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import IO, TypeVar

from loader import _native
from loader.errors import DataChangedError, DataError
from loader.files.identity import DataFile
from loader.files.regular import open_regular
from loader.formats.format import Place
from loader.formats.readers import open_usable_files
from loader.plugins.error_text import MAX_MESSAGE_LENGTH, shorten
from loader.rows.block import Rows
from loader.rows.category_sample import CategorySample, refuse_float_ids, sampled_parts, sampled_rows
from loader.rows.settings import RowsConfig

try:
    import pyarrow
    import pyarrow.compute
    import pyarrow.parquet

    from loader.rows.formats.parquet.columns import Columns
except ModuleNotFoundError:
    raise ValueError("data.format: parquet needs the package pyarrow: pip install 'sparsepool[parquet]'") from None

Result = TypeVar("Result")
_SAMPLED_BATCH_ROWS = 4096  # rows of a batch that is read to sample categories
_MAX_SAMPLED_BATCHES = 8
_BYTES_PER_BYTE = 4  # of memory for an uncompressed byte of a row group, about the most


class ParquetReader:
    """A `loader.formats.format.Reader` of Parquet files, where each chunk is a row group."""

    noun = "row group"

    def __init__(self, files: Sequence[DataFile], settings: RowsConfig, *, skip_damaged: bool) -> None:
        settings.check_columns()
        self.name = ", ".join(str(file.path) for file in files[:3])
        opened = open_usable_files(files, lambda file: _File(file, settings), skip_damaged=skip_damaged)
        self._chunks = [(file, group) for file in opened for group in range(file.num_groups)]

    @property
    def num_chunks(self) -> int:
        return len(self._chunks)

    def place(self, chunk: int) -> Place:
        file, group = self._chunks[chunk]
        return Place(file.file.path, group)

    def count(self, chunk: int) -> int:
        file, group = self._chunks[chunk]
        return int(query_file(file.file, lambda opened: opened.metadata.row_group(group).num_rows))

    def read(self, chunk: int) -> Iterator[Rows]:
        file, group = self._chunks[chunk]
        yield file.read(group)


class _File:
    """A Parquet file, whose columns have been checked against the settings."""

    def __init__(self, file: DataFile, settings: RowsConfig) -> None:
        """Checks the file's columns. Raises DataError for a file that can't be used, ValueError for ids that were once
        floats."""
        self.file = file
        self.num_groups, schema = query_file(file, lambda opened: (opened.num_row_groups, opened.schema_arrow))
        try:
            self._columns = Columns(settings, schema.names)
            self._columns.rows(schema.empty_table())  # raises ValueError for unsuitable types
        except ValueError as error:
            raise DataError(file.path, str(error)) from None
        if settings.columns.float_ids == "refuse":
            refuse_float_ids(file.path, self.category_sample())

    def category_sample(self) -> CategorySample:
        """Returns the categories in some rows. Returns none if the rows are damaged, since reading them later raises
        the error."""
        try:
            table = query_file(self.file, partial(_sample_rows, columns=self._columns.names))
        except DataError:
            return {}
        return self._columns.category_sample(table)

    def read(self, group: int) -> Rows:
        table = query_file(self.file, lambda opened: read_row_group(opened, group, self._columns.names))
        try:
            return self._columns.rows(table)
        except ValueError as error:
            raise DataError(self.file.path, f"row group {group}: {error}") from None


def category_sample(file: DataFile, settings: RowsConfig) -> CategorySample:
    """Returns the categories in some rows of a file, by the name of their column. Raises DataError."""
    return _File(file, settings).category_sample()


def texts(file: DataFile, column: str) -> Iterator[str]:
    """Yields the value of one column in each row. Raises DataError, also for a column that does not exist or has
    neither texts nor numbers."""
    num_groups, names = query_file(file, lambda opened: (opened.num_row_groups, opened.schema_arrow.names))
    if names.count(column) != 1:
        problem = "no column" if column not in names else "more than one column"
        raise DataError(file.path, f"{problem} {column!r} (--id); there are {', '.join(names[:40])}")
    for group in range(num_groups):
        values = query_file(file, partial(read_row_group, group=group, columns=[column])).column(0)
        try:
            texts = values.cast(pyarrow.string()).to_pylist()
        except pyarrow.ArrowException:
            raise DataError(file.path, f"{column} (--id): is of {values.type}, not of texts or numbers") from None
        yield from (text or "" for text in texts)


def rows_nbytes(file: DataFile) -> tuple[int, int]:
    """Estimates memory as `loader.rows.memory.SizedFormat` does, for all columns decoded. Raises DataError."""
    metadata = query_file(file, lambda opened: opened.metadata)
    sizes = [metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups)]
    return _BYTES_PER_BYTE * max(sizes, default=0), _BYTES_PER_BYTE * sum(sizes)


def read_row_group(
    opened: pyarrow.parquet.ParquetFile, group: int, columns: Sequence[str] | None = None
) -> pyarrow.Table:
    """Reads a row group, or some columns of it, without threads of Arrow. Such a thread would abort the process if it
    released a buffer of Python's while the process ends."""
    return opened.read_row_group(group, columns, use_threads=False)


def _sample_rows(opened: pyarrow.parquet.ParquetFile, columns: Sequence[str]) -> pyarrow.Table:
    """Reads rows from the beginning of the file. In a large file it also reads rows at the beginning of the middle and
    the last row group."""

    def read_beginning(groups: Sequence[int]) -> Iterator[pyarrow.RecordBatch]:
        batches = opened.iter_batches(_SAMPLED_BATCH_ROWS, groups, columns=columns, use_threads=False)
        return itertools.islice(batches, _MAX_SAMPLED_BATCHES)

    num_groups = opened.num_row_groups
    batches = list(read_beginning(range(num_groups)))
    if sum(batch.num_rows for batch in batches) < opened.metadata.num_rows:
        for group in sampled_parts(num_groups)[1:]:
            batches += read_beginning([group])
    if not batches:
        return opened.schema_arrow.empty_table().select(columns)
    table = pyarrow.Table.from_batches(batches)
    rows = sampled_rows(table.num_rows)
    if len(rows) == table.num_rows:
        return table
    return pyarrow.concat_tables(table.slice(row, 1) for row in rows)  # `take` does not support string views


def _open_parquet(opened: IO[bytes]) -> pyarrow.parquet.ParquetFile:
    """Opens a file without threads that read ahead (see `read_row_group`). INT96 timestamps are read in microseconds:
    in nanoseconds the year 9999 would wrap around to 1816."""
    return pyarrow.parquet.ParquetFile(
        opened, page_checksum_verification=True, pre_buffer=False, coerce_int96_timestamp_unit="us"
    )


def query_file(file: DataFile, query: Callable[[pyarrow.parquet.ParquetFile], Result]) -> Result:
    """Opens a Parquet file, and returns the result of calling `query` with the open file. Raises DataError, and
    DataChangedError if the file has changed since it was identified, so that such a file is not called damaged."""
    fault: Exception | None = None
    try:
        descriptor = open_regular(file.path)
    except OSError as error:
        raise DataError(file.path, error.strerror or str(error)) from None
    with os.fdopen(descriptor, "rb") as opened:
        try:
            result = query(_open_parquet(opened))
        except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            fault = error
    change = _native.file_change(file.path, file.identity, False)
    if change:
        raise DataChangedError(file.path, change)
    if fault is not None:
        raise DataError(file.path, f"can't be read as parquet: {shorten(str(fault), MAX_MESSAGE_LENGTH)}")
    return result
