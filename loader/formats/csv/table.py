"""Rows from the texts of a file's columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from loader.rows.block import Array, Rows
from loader.rows.columns import Column
from loader.rows.fields import LABEL, QID, WEIGHT, check_labels, dense_names
from loader.rows.hashing import hashed_field
from loader.rows.settings import RowsConfig

_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_LARGEST = float(np.finfo(np.float32).max)


class Table:
    """Which columns are what. Raises ValueError for a column that is not there."""

    def __init__(self, settings: RowsConfig, names: Sequence[str], width: int) -> None:
        """`names`: of the columns; none if they have numbers only. `width`: how many there are."""
        self._settings = settings
        self.width = width
        columns = settings.columns
        wanted = [*dense_names(settings), *([QID] if settings.qid else [])]
        self._dense = {name: _index(*columns.column_of_number(name), names, width) for name in wanted}
        self._sparse = {
            field: [_index(f"sparse.{field}", column, names, width) for column in columns.columns_of_field(field)]
            for field in settings.ranges()
        }

    def rows(self, lines: Sequence[Sequence[str]]) -> Rows:
        """Of lines of `width` texts, one line or more. Raises ValueError for what can't be read as it should."""
        for line in lines:
            if len(line) != self.width:
                raise ValueError(f"expected {self.width} columns, got {len(line)}")
        texts = list(zip(*lines, strict=True))
        dense = {name: self._numbers(name, texts[index]) for name, index in self._dense.items()}
        check_labels(dense[LABEL], self._settings)
        if WEIGHT in dense and (dense[WEIGHT] < 0).any():
            raise ValueError(f"expected a weight of 0 or more, got {dense[WEIGHT].min():g}")
        sizes = {field: end - begin for field, (begin, end) in self._settings.ranges().items()}
        sparse = {
            field: hashed_field([texts[index] for index in indices], sizes[field], self._settings.columns)
            for field, indices in self._sparse.items()
        }
        return Rows(dense, sparse)

    def _numbers(self, name: str, texts: Sequence[str]) -> Array:
        if name == QID:
            return np.array([_integer(text) for text in texts], np.int64)
        missing = () if name in (LABEL, WEIGHT) else self._settings.columns.missing
        known = _Numbers(name, missing, self._settings.columns.missing_number)
        numbers: npt.NDArray[np.float64] = np.fromiter(map(known.__getitem__, texts), np.float64, len(texts))
        return numbers


class _Numbers(dict[str, float]):
    """Of the texts of a column; each is read once."""

    def __init__(self, name: str, absent: Collection[str], number_of_absent: float) -> None:
        self._name = name
        super().__init__(dict.fromkeys(absent, number_of_absent))

    def __missing__(self, text: str) -> float:
        number = float(text) if _NUMBER.fullmatch(text.strip(" ")) else np.inf
        if not abs(number) <= _LARGEST:
            raise ValueError(f"{self._name}: expected a number that float32 can hold, got {text[:40]!r}")
        self[text] = number
        return number


def _integer(text: str) -> int:
    if not re.fullmatch(r" *[-+]?[0-9]{1,18} *", text):
        raise ValueError(f"{QID}: expected an integer of at most 18 digits, got {text[:40]!r}")
    return int(text)


def _index(key: str, column: Column, names: Sequence[str], width: int) -> int:
    key = f"data.rows.columns.{key}"
    if isinstance(column, int):
        if column >= width:
            raise ValueError(f"no column {column} ({key}): there are 0 to {width - 1}")
        return column
    if names.count(column) == 1:
        return names.index(column)
    if not names:
        raise ValueError(f"no column {column!r} ({key}): without a header, a column is named by its number, from 0 on")
    what = "no column" if column not in names else "more than one column"
    raise ValueError(f"{what} {column!r} ({key}); there are {', '.join(names[:40])}")
