"""Finds the columns of a text file in its first line, as the settings say."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from loader import _native
from loader.errors import DataError
from loader.files.compression import READABLE_ENDINGS
from loader.rows.columns import LAYOUTS, Column
from loader.rows.fields import LABEL, optional_dense_names
from loader.rows.settings import RowsConfig
from loader.rows.spellings import FLOAT_ID, FRACTION, INTEGER, classify_spelling

BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # byte order mark of UTF-8 at a file's beginning
_MAX_LISTED = 40  # names of columns that an error message lists
_NO_HEADER = "a file without a header needs data.rows.columns.header = false"


def file_dialect(settings: RowsConfig, name: str) -> _native.CsvCut:
    """Returns how the lines of a file of that name are split: delimiter, quote, and whether there is a header. Raises
    ValueError if delimiter and quote are the same."""
    columns = settings.columns
    layout = LAYOUTS.get(columns.layout)
    if layout is not None:
        return _native.CsvCut(layout.delimiter, layout.quote, header=False)
    is_tsv = any(name.endswith(f".tsv{ending}") for ending in READABLE_ENDINGS)
    default_delimiter = "\t" if is_tsv else ","
    delimiter = columns.delimiter or default_delimiter
    if delimiter == columns.quote:
        raise ValueError(f"the delimiter is {delimiter!r}, and data.rows.columns.quote, too")
    return _native.CsvCut(delimiter, columns.quote, columns.header)


def read_column_names(settings: RowsConfig, dialect: _native.CsvCut, first_line: bytes) -> tuple[Sequence[str], int]:
    """Returns the names of the columns, none if the file has no header, and their number. Raises ValueError."""
    layout = LAYOUTS.get(settings.columns.layout)
    if layout is not None:
        names = layout.names
        may_lack_label = LABEL in optional_dense_names(settings)
        if may_lack_label and len(dialect.split(first_line)) < len(names):
            names = tuple(name for name in names if name != LABEL)
        return names, len(names)
    cells = dialect.split(first_line.removeprefix(BYTE_ORDER_MARK))
    if not settings.columns.header:
        return (), len(cells)
    try:
        return tuple(cell.decode().strip() for cell in cells), len(cells)
    except UnicodeDecodeError:
        raise ValueError("the names of the columns are no UTF-8 text") from None


@contextlib.contextmanager
def blame_first_line(path: Path) -> Iterator[None]:
    """Turns a ValueError that the `with` block raises into a DataError about the first line of the file."""
    try:
        yield
    except DataError:
        raise
    except ValueError as error:
        raise DataError(path, f"line 1: {error}") from None


def locate_columns(settings: RowsConfig, shape: _native.RowShape, name: str, first_line: bytes) -> _native.CsvColumns:
    """Returns, for the native part, which columns of a text file of that name hold the numbers and fields of the
    settings. Raises ValueError for a column that does not exist."""
    columns = settings.columns
    located = _native.CsvColumns(file_dialect(settings, name))
    names, located.width = read_column_names(settings, located.cut, first_line)

    def find_index(key: str, column: Column) -> int:
        return find_column_index(f"data.rows.columns.{key}", column, names, located.width)

    optional = optional_dense_names(settings)
    located.dense = [
        0 if number in optional else find_index(*columns.column_of_number(number)) for number in shape.dense
    ]
    located.qid = find_index(*columns.column_of_number("qid")) if settings.qid else None
    located.fields = [
        [find_index(f"sparse.{field.name}", column) for column in columns.columns_of_field(field.name)]
        for field in shape.fields
    ]
    located.seed = columns.seed
    located.missing = list(columns.missing)
    located.missing_number = columns.missing_number
    located.float_ids_are_integers = columns.float_ids == "integer"
    located.missing_is_feature = columns.missing_category == "feature"
    return located


def has_header(settings: RowsConfig) -> bool:
    """Returns whether the first line of a file holds the names of its columns."""
    return settings.columns.header and not settings.columns.layout


def find_column_index(key: str, column: Column, names: Sequence[str], width: int) -> int:
    """Returns the number of a column given by name or number. `key`: the setting or option that names it, for messages.
    Raises ValueError for a column that does not exist."""
    if isinstance(column, int):
        if column >= width:
            raise ValueError(f"no column {column} ({key}): there are 0 to {width - 1}")
        pandas_names = [str(number) for number in range(len(names))]  # of a table whose columns have no names
        if names and _is_number(names[column]) and list(names) != pandas_names:
            raise ValueError(
                f"column {column} ({key}) is called {names[column]!r}, as if this were a row: {_NO_HEADER}; if it is a "
                "name, use it in place of the number"
            )
        return column
    if names.count(column) == 1:
        return names.index(column)
    if not names:
        raise ValueError(f"no column {column!r} ({key}): without a header, a column is named by its number, from 0 on")
    problem = "no column" if column not in names else "more than one column"
    listed = ", ".join(names[:_MAX_LISTED])
    if len(names) > _MAX_LISTED:
        listed += f" and {len(names) - _MAX_LISTED} more"
    advice = f"; {_NO_HEADER}" if all(map(_is_number, names)) else ""
    raise ValueError(f"{problem} {column!r} ({key}); there are {listed}{advice}")


def _is_number(text: str) -> bool:
    return classify_spelling(text) in (INTEGER, FLOAT_ID, FRACTION)
