"""Makes rows of the columns of a pyarrow table."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
import pyarrow
import pyarrow.compute
from pyarrow import types

from loader.rows.block import Array, Rows, Sparse
from loader.rows.category_sample import CategorySample, column_names, present_texts
from loader.rows.columns import Column
from loader.rows.feature_hash import Texts, hash_columns
from loader.rows.fields import LABEL, QID, WEIGHT, read_dense_names
from loader.rows.settings import RowsConfig

Read = TypeVar("Read")
_MAX_EXACT = 1 << 53  # below it, float64 can represent every whole number


class Columns:
    """The columns that the settings use of a file, and for what. Raises ValueError for a column that does not exist."""

    def __init__(self, settings: RowsConfig, names: Sequence[str]) -> None:
        """Finds the columns for the settings' dense numbers and sparse fields among `names`, the columns of a file.
        Keeps the names of those that are used."""
        self._settings = settings
        self._dense: dict[str, str] = {}
        for number in read_dense_names(settings):
            key, column = settings.columns.column_of_number(number)
            self._dense[number] = _find_column_name(key, column, names)
        self._sparse: dict[str, list[str]] = {}
        for field in settings.ranges():
            columns = settings.columns.columns_of_field(field)
            self._sparse[field] = [_find_column_name(f"sparse.{field}", column, names) for column in columns]
        sparse_names = itertools.chain.from_iterable(self._sparse.values())
        self.names = list(dict.fromkeys([*self._dense.values(), *sparse_names]))

    def rows(self, table: Any) -> Rows:
        """Returns the rows of a table. Raises ValueError for a column whose type does not suit its use."""
        return Rows(
            dense={
                name: _call_named(name, self._read_numbers, table.column(column))
                for name, column in self._dense.items()
            },
            sparse={field: _call_named(field, self._read_field, table, names) for field, names in self._sparse.items()},
        )

    def _read_numbers(self, name: str, column: Any) -> Array:
        """Returns a column as numbers, or labels for data.rows.label_map as texts, unless they are floats. Missing
        numbers are data.rows.columns.missing_number. Raises ValueError for another type, and for a missing label,
        weight or qid."""
        is_mapped = name == LABEL and bool(self._settings.label_map)
        if not is_mapped and not _is_number(column.type):
            advice = "; data.rows.label_map says what words mean" if name == LABEL else ""
            raise ValueError(f"a column of numbers is expected, not of {column.type}{advice}")
        if name in (LABEL, WEIGHT, QID):
            _refuse_missing(column)
        if is_mapped and not types.is_floating(column.type):
            return np.array(_as_texts(column), dtype=str)
        if name == QID:
            return _query_numbers(column)
        numbers = column.cast(pyarrow.float64(), safe=False)
        if name not in (LABEL, WEIGHT):
            numbers = pyarrow.compute.if_else(numbers.is_nan(), None, numbers)
        return np.asarray(numbers.fill_null(self._settings.columns.missing_number).to_numpy())

    def _read_field(self, field: str, table: Any, names: Sequence[str]) -> Sparse:
        """Returns the features of a field: feature numbers of a column of integer lists, or hashes of the texts in its
        columns."""
        columns = [table.column(name) for name in names]
        if any(_is_integer_list(column.type) for column in columns):
            if len(columns) > 1:
                raise ValueError(f"a column of lists of integers is a field alone, and {len(columns)} are named")
            return _flatten_features(columns[0].combine_chunks())
        begin, end = self._settings.ranges()[field]
        texts = [self._read_texts(column) for column in columns]
        return hash_columns(texts, end - begin, self._settings.columns)

    def _read_texts(self, column: Any) -> Texts:
        """Returns the categories in a column. A missing list counts as an empty one."""
        offsets = None
        if _is_list(column.type):
            offsets, column = _flatten_lists(column.combine_chunks())
        if self._settings.columns.float_ids == "integer":
            column = _integers_of_floats(column)
        return _as_texts(column), offsets

    def category_sample(self, table: Any) -> CategorySample:
        """Returns the categories in a table, by the name of their column. Leaves out columns of other types, and
        feature numbers."""
        sample: dict[str, Sequence[str]] = {}
        columns = itertools.chain.from_iterable(self._sparse.values())
        for title, name in zip(column_names(self._sparse), columns, strict=True):
            column = table.column(name)
            if _is_integer_list(column.type):
                continue
            with suppress(ValueError):
                texts, _ = self._read_texts(column)
                sample[title] = present_texts(texts, self._settings.columns.missing)
        return sample


def _call_named(name: str, read: Callable[..., Read], *arguments: Any) -> Read:
    """Calls read(name, *arguments) and returns the result. The message of a ValueError that it raises gets the name in
    front."""
    try:
        return read(name, *arguments)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _query_numbers(column: Any) -> Array:
    """Returns a column of query numbers as int64. Raises ValueError for a number that is not whole, or for a float so
    large that it may stand for several whole numbers."""
    if types.is_floating(column.type) and (np.abs(column.to_numpy()) >= _MAX_EXACT).any():
        raise ValueError(
            f"the column is of {column.type}, which can't tell whole numbers of {_MAX_EXACT:,} (2^53) or more apart; "
            "write the column as int64"
        )
    return np.asarray(column.cast(pyarrow.int64()).to_numpy())


def _refuse_missing(column: Any) -> None:
    """Raises ValueError if a number of the column is missing."""
    count = column.null_count
    if not count:
        return
    first = pyarrow.compute.index(column.is_null(), True).as_py()
    if count == 1:
        raise ValueError(f"row {first} has none")
    raise ValueError(f"row {first} has none, the first of {count}")


def _is_number(kind: Any) -> bool:
    """Returns whether a type is one of numbers, booleans included, or that of a column without any value."""
    is_real = types.is_floating(kind) or types.is_decimal(kind)
    return bool(is_real or types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind))


def _is_list(kind: Any) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_integer_list(kind: Any) -> bool:
    return _is_list(kind) and bool(types.is_integer(kind.value_type))


def _flatten_features(column: Any) -> Sparse:
    """Returns the feature numbers in a column of lists, counted from 0 within the field. A missing list counts as an
    empty one."""
    offsets, features = _flatten_lists(column)
    if features.null_count:
        first = pyarrow.compute.index(features.is_null(), True).as_py()
        row = np.searchsorted(offsets, first, side="right") - 1
        raise ValueError(f"{features.null_count} features are missing within their lists, of row {row} the first")
    return offsets, features.to_numpy(zero_copy_only=False), None


def _flatten_lists(column: Any) -> tuple[Array, Any]:
    """Returns the offsets (int64 [rows + 1]) of a column of lists, and the column of their values. A missing list
    counts as an empty one."""
    if types.is_fixed_size_list(column.type):
        column = column.cast(pyarrow.list_(column.type.value_type))
    lengths = pyarrow.compute.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]), column.flatten()


def _integers_of_floats(column: Any) -> Any:
    """Returns a column with floats as integers, NaN as missing, and texts such as "17.0" as "17"; other types are
    unchanged. Raises ValueError for a float with a fraction, or so large that it may stand for several integers."""
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if _is_text(column.type):
        texts = column.cast(pyarrow.large_string())
        integers = pyarrow.compute.replace_substring_regex(texts, r"^(-?[0-9]+)\.0+$", r"\1")
        changed = integers.filter(pyarrow.compute.not_equal(integers, texts).fill_null(False))
        _require_exact(changed.cast(pyarrow.int64()))
        return integers
    if not types.is_floating(column.type):
        return column
    column = column.cast(pyarrow.float64())
    column = pyarrow.compute.if_else(column.is_nan(), None, column)
    _require_exact(column)
    return column.cast(pyarrow.int64())


def _require_exact(ids: Any) -> None:
    """Raises ValueError if an id is so large that a float can't tell it from the next one."""
    if pyarrow.compute.any(pyarrow.compute.greater_equal(pyarrow.compute.abs(ids), _MAX_EXACT)).as_py():
        raise ValueError(
            f"expected ids below {_MAX_EXACT:,} (2^53), as floats can't tell larger ones apart; write the column as "
            "int64"
        )


def _is_text(kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _as_texts(column: Any) -> list[str | None]:
    """Returns the texts of a column of categories. Integers, and decimals without a fraction, become their digits;
    booleans become true and false. Dates and times are written as in ISO 8601, in UTC if they have a time zone, and a
    fraction of a second has as many digits as it needs, whatever the unit. Raises ValueError for another type."""
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    is_whole = types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind) or _is_whole_decimal(kind)
    is_time = types.is_date(kind) or types.is_timestamp(kind)
    if not (_is_text(kind) or is_whole or is_time):
        advice = '; data.rows.columns.float_ids = "integer" reads 17.0 as 17' if types.is_floating(kind) else ""
        raise ValueError(
            "a column of text, integers, booleans or dates is expected, one of lists of them, or of lists of integers, "
            f"not of {column.type}{advice}"
        )
    if types.is_timestamp(kind):
        column = column.cast(pyarrow.timestamp(kind.unit, "UTC" if kind.tz else None))
    formatted = column.cast(pyarrow.string())
    if is_time:
        formatted = pyarrow.compute.replace_substring_regex(formatted, r"(\.\d*[1-9])0+|\.0+", r"\1")
    texts: list[str | None] = formatted.to_pylist()
    return texts


def _is_whole_decimal(kind: Any) -> bool:
    return bool(types.is_decimal(kind)) and kind.scale == 0


def _find_column_name(key: str, column: Column, names: Sequence[str]) -> str:
    """Returns the name of a column given by name or number. Raises ValueError for one that does not exist or is not
    unique."""
    if isinstance(column, int):
        if column >= len(names):
            raise ValueError(f"no column {column} (data.rows.columns.{key}): there are 0 to {len(names) - 1}")
        if names.count(names[column]) > 1:
            raise ValueError(
                f"column {column} (data.rows.columns.{key}) shares its name {names[column]!r} with another"
            )
        return names[column]
    if names.count(column) != 1:
        problem = "no column" if column not in names else "more than one column"
        raise ValueError(f"{problem} {column!r} (data.rows.columns.{key}); there are {', '.join(names[:40])}")
    return column
