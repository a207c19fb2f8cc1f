"""Opens text files with columns for the stream. The native part reads and hashes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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

Opened = tuple[DataFile, _native.LineFile, _native.CsvColumns]


class CsvReader:
    """A `loader.formats.format.Reader` of text files with columns, where each chunk is a block of lines."""

    def __init__(self, files: Sequence[DataFile], settings: RowsConfig, *, may_grow: bool, skip_damaged: bool) -> None:
        """Opens the files that are not empty. Raises DataError for a file that can't be used; with `skip_damaged` it is
        left out."""
        settings.check_columns()
        self._shape = row_shape(settings)
        opened = open_usable_files(
            [file for file in files if file.size],
            lambda file: _open(file, settings, self._shape, may_grow=may_grow),
            skip_damaged=skip_damaged,
        )
        self._places = [
            Place(known.path, chunk, file.offset(chunk))
            for known, file, _ in opened
            for chunk in range(file.num_chunks)
        ]
        self.native = _native.CsvReader([file for _, file, _ in opened], [each for _, _, each in opened], self._shape)
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


def texts(known: DataFile, settings: RowsConfig, column: str, *, may_grow: bool) -> Iterator[str]:
    """Yields the value of one column in each row. Raises DataError, also for a column that does not exist."""
    if not known.size:
        return
    file = _native.LineFile(known.path, known.identity, may_grow)
    with blame_first_line(known.path):
        cut = file_dialect(settings, known.path.name)
        names, width = read_column_names(settings, cut, file.first_line())
        number = int(column) if not names and column.isdecimal() else column
        index = find_column_index("--id", number, names, width)
    for chunk in range(file.num_chunks):
        text = file.text(chunk).removeprefix(BYTE_ORDER_MARK if chunk == 0 else b"")
        lines = [line for line in text.split(b"\n") if line.removesuffix(b"\r")]
        for line in lines[1 if chunk == 0 and has_header(settings) else 0 :]:
            yield cut.split(line)[index].decode(errors="replace")


def _open(known: DataFile, settings: RowsConfig, shape: _native.RowShape, *, may_grow: bool) -> Opened:
    """Opens a file and finds its columns. Raises DataError for a file that can't be used, or whose header lacks a
    column of the settings."""
    file = _native.LineFile(known.path, known.identity, may_grow)
    with blame_first_line(known.path):
        columns = locate_columns(settings, shape, known.path.name, file.first_line())
    if settings.columns.float_ids == "refuse":
        refuse_float_ids(known.path, _sampled(file, columns, settings, shape))
    return known, file, columns


def category_sample(known: DataFile, settings: RowsConfig, *, may_grow: bool) -> CategorySample:
    """Returns the categories in some rows of a file, by the name of their column. Raises DataError."""
    if not known.size:
        return {}
    file = _native.LineFile(known.path, known.identity, may_grow)
    shape = row_shape(settings)
    with blame_first_line(known.path):
        columns = locate_columns(settings, shape, known.path.name, file.first_line())
    return _sampled(file, columns, settings, shape)


def _sampled(
    file: _native.LineFile, columns: _native.CsvColumns, settings: RowsConfig, shape: _native.RowShape
) -> CategorySample:
    """Returns the categories in some rows of an open file. Skips damaged lines, since reading them later raises the
    error."""
    names = column_names(
        {field.name: [*map(str, settings.columns.columns_of_field(field.name))] for field in shape.fields}
    )
    texts: dict[str, list[str]] = {name: [] for name in names}
    numbers = [number for field in columns.fields for number in field]
    for line in _sampled_lines(file, has_header(settings)):
        try:
            cells = columns.cut.split(line)
        except ValueError:
            continue
        if len(cells) == columns.width:
            for name, number in zip(names, numbers, strict=True):
                texts[name].append(cells[number].decode(errors="replace"))
    return {name: present_texts(each, settings.columns.missing) for name, each in texts.items()}


def _sampled_lines(file: _native.LineFile, has_header: bool) -> Iterator[bytes]:
    """Yields the lines of some rows. Compressed text is sampled only at its beginning."""
    lines: list[bytes] = []
    for piece in sampled_parts(file.num_chunks)[: 1 if file.is_packed else None]:
        text = file.text(piece).removeprefix(BYTE_ORDER_MARK if piece == 0 else b"")
        lines += [line for line in text.split(b"\n") if line.removesuffix(b"\r")][int(has_header and piece == 0) :]
    return (lines[row] for row in sampled_rows(len(lines)))
