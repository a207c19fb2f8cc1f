"""Opens text files with columns for the stream. The native part reads and hashes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loader import _native
from loader.files.identity import DataFile
from loader.formats.format import Place
from loader.formats.readers import open_usable_files
from loader.rows.block import Rows
from loader.rows.category_sample import (
    CategorySample,
    column_names,
    present_texts,
    refuse_float_ids,
    sampled_parts,
    sampled_rows,
)
from loader.rows.chunks import read_native_chunk
from loader.rows.fields import row_shape
from loader.rows.formats.csv.table import (
    BYTE_ORDER_MARK,
    blame_first_line,
    file_dialect,
    find_column_index,
    has_header,
    locate_columns,
    read_column_names,
)
from loader.rows.settings import RowsConfig


@dataclass(frozen=True)
class _OpenFile:
    """An open text file, and where its columns are."""

    file: DataFile
    lines: _native.LineFile
    columns: _native.CsvColumns


class CsvReader:
    """A `loader.formats.format.Reader` of text files with columns, where each chunk is a block of lines."""

    def __init__(self, files: Sequence[DataFile], settings: RowsConfig, *, may_grow: bool, skip_damaged: bool) -> None:
        """Opens the files that are not empty. Raises DataError for a file that can't be used; with `skip_damaged` it is
        left out."""
        settings.check_columns()
        self._shape = row_shape(settings)
        open_files = open_usable_files(
            [file for file in files if file.size],
            lambda file: _open_checked(file, settings, self._shape, may_grow=may_grow),
            skip_damaged=skip_damaged,
        )
        self._places: list[Place] = []
        for opened in open_files:
            self._places += [
                Place(opened.file.path, chunk, opened.lines.offset(chunk)) for chunk in range(opened.lines.num_chunks)
            ]
        self.native = _native.CsvReader(
            [opened.lines for opened in open_files], [opened.columns for opened in open_files], self._shape
        )
        if skip_damaged:
            self.native.skip_damage()

    @property
    def name(self) -> str:
        return self.native.name

    @property
    def num_chunks(self) -> int:
        return self.native.num_chunks

    def place(self, chunk: int) -> Place:
        return self._places[chunk]

    def read(self, chunk: int) -> Iterator[Rows]:
        rows, error = read_native_chunk(self.native, chunk, self._shape)
        yield rows
        if error is not None:
            raise error


def texts(file: DataFile, settings: RowsConfig, column: str, *, may_grow: bool) -> Iterator[str]:
    """Yields the value of one column in each row. Raises DataError, also for a column that does not exist."""
    if not file.size:
        return
    lines = _native.LineFile(file.path, file.identity, may_grow)
    with blame_first_line(file.path):
        dialect = file_dialect(settings, file.path.name)
        names, width = read_column_names(settings, dialect, lines.first_line())
        name_or_number = int(column) if not names and column.isdecimal() else column
        index = find_column_index("--id", name_or_number, names, width)
    for chunk in range(lines.num_chunks):
        for line in _rows_of_chunk(lines, chunk, has_header(settings)):
            yield dialect.split(line)[index].decode(errors="replace")


def _open_file(file: DataFile, settings: RowsConfig, shape: _native.RowShape, *, may_grow: bool) -> _OpenFile:
    """Opens a file and finds its columns. Raises DataError for a file that can't be used, or whose header lacks a
    column of the settings."""
    lines = _native.LineFile(file.path, file.identity, may_grow)
    with blame_first_line(file.path):
        columns = locate_columns(settings, shape, file.path.name, lines.first_line())
    return _OpenFile(file, lines, columns)


def _open_checked(file: DataFile, settings: RowsConfig, shape: _native.RowShape, *, may_grow: bool) -> _OpenFile:
    """Opens a file as `_open_file`. Raises ValueError for ids that were once floats, unless the settings allow them."""
    opened = _open_file(file, settings, shape, may_grow=may_grow)
    if settings.columns.float_ids == "refuse":
        refuse_float_ids(file.path, _sample_categories(opened, settings, shape))
    return opened


def category_sample(file: DataFile, settings: RowsConfig, *, may_grow: bool) -> CategorySample:
    """Returns the categories in some rows of a file, by the name of their column. Raises DataError."""
    if not file.size:
        return {}
    shape = row_shape(settings)
    return _sample_categories(_open_file(file, settings, shape, may_grow=may_grow), settings, shape)


def _sample_categories(opened: _OpenFile, settings: RowsConfig, shape: _native.RowShape) -> CategorySample:
    """Returns the categories in some rows of an open file. Skips damaged lines, since reading them later raises the
    error."""
    columns = opened.columns
    names = column_names(
        {field.name: [*map(str, settings.columns.columns_of_field(field.name))] for field in shape.fields}
    )
    indices = [index for field in columns.fields for index in field]
    texts: dict[str, list[str]] = {name: [] for name in names}
    for line in _sample_rows(opened.lines, has_header(settings)):
        try:
            cells = columns.cut.split(line)
        except ValueError:
            continue
        if len(cells) != columns.width:
            continue
        for name, index in zip(names, indices, strict=True):
            texts[name].append(cells[index].decode(errors="replace"))
    return {name: present_texts(column, settings.columns.missing) for name, column in texts.items()}


def _sample_rows(lines: _native.LineFile, has_header: bool) -> list[bytes]:
    """Returns some rows, as lines. Compressed text is sampled only at its beginning."""
    chunks = sampled_parts(lines.num_chunks)
    if lines.is_packed:
        chunks = chunks[:1]
    rows = [row for chunk in chunks for row in _rows_of_chunk(lines, chunk, has_header)]
    return [rows[index] for index in sampled_rows(len(rows))]


def _rows_of_chunk(lines: _native.LineFile, chunk: int, has_header: bool) -> list[bytes]:
    """Returns the lines of a chunk that are not empty, without the header."""
    text = lines.text(chunk)
    if chunk == 0:
        text = text.removeprefix(BYTE_ORDER_MARK)
    rows = [line for line in text.split(b"\n") if line.removesuffix(b"\r")]
    return rows[1:] if has_header and chunk == 0 else rows
