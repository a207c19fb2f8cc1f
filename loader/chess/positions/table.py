"""Positions as a numpy array with named fields (a table): the fields, their meaning, and which of them a format has.

The memory layout is that of `Row` in chess/native/table/table.h. The dtype for a format omits fields that the format
does not store, so no field holds values that nobody has written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.chess.filters import CASTLING, CLOCK, EN_PASSANT, MOVE, PARTS, PLY, SIDE
from loader.errors import UsageError

if TYPE_CHECKING:
    from loader.chess.positions.input import SourceFile

Table = npt.NDArray[np.void]  # [positions], with a dtype made by `dtype_of`
ROW_BYTES = 80


@dataclass(frozen=True)
class Field:
    """A field of the table: its numpy type, its place in a row, and its value where it is not given."""

    name: str
    kind: str  # numpy type
    offset: int
    part: str | None = None  # part of an entry that holds the field, which a format may lack; None: all have it
    shape: tuple[int, ...] = ()
    absent: int = 0  # value that is written if a table lacks the field


FIELDS = (
    Field("board", "i1", 0, shape=(64,)),
    Field("castling", "u1", 64, CASTLING, (4,), absent=64),
    Field("score", "<i2", 68),
    Field("ply", "<u2", 70, PLY),
    Field("result", "i1", 72),
    Field("side_to_move", "u1", 73, SIDE),
    Field("en_passant", "u1", 74, EN_PASSANT, absent=64),
    Field("clock", "<u2", 76, CLOCK),
    Field("move_from", "u1", 75, MOVE, absent=64),
    Field("move_to", "u1", 78, MOVE, absent=64),
    Field("promotion", "u1", 79, MOVE),
)
_NEEDED = [field.name for field in FIELDS if field.part is None]


def dtype_of(lacks: Sequence[str] = ()) -> np.dtype[np.void]:
    """Returns the dtype of a table without the fields of the parts listed in `lacks`. A row has 80 bytes in any
    case."""
    fields = [field for field in FIELDS if field.part not in lacks]
    return np.dtype(
        {
            "names": [field.name for field in fields],
            "formats": [(field.kind, field.shape) for field in fields],
            "offsets": [field.offset for field in fields],
            "itemsize": ROW_BYTES,
        }
    )


def view_as_table(rows: npt.NDArray[np.uint8], dtype: np.dtype[np.void]) -> Table:
    """Views rows [positions, 80] of native code as a table, without a copy."""
    return cast(Table, rows.reshape(-1).view(dtype))


def missing_parts(table: npt.NDArray[Any]) -> tuple[str, ...]:
    """Returns the parts of a position (move, ply, ...) for which the table has no field."""
    names = table.dtype.names or ()
    present = {field.part for field in FIELDS if field.name in names}
    return tuple(part for part in PARTS if part not in present)


def rows_of(table: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Converts a table to rows [positions, 80] for native code. Missing optional fields are filled with the value for
    "none". Raises UsageError for an array that is no table of positions."""
    names = (isinstance(table, np.ndarray) and table.dtype.names) or ()
    if not names or table.ndim != 1:
        raise UsageError(
            "positions are a numpy array of one dimension with named fields, as sparsepool.open gives them"
        )
    fields = {field.name: field for field in FIELDS}
    for name in names:
        if name not in fields:
            raise UsageError(f"positions have no field {name!r}; there are {', '.join(fields)}")
    for name in _NEEDED:
        if name not in names:
            raise UsageError(f"positions need the field {name}")
    rows = np.zeros((len(table), ROW_BYTES), np.uint8)
    full_table = view_as_table(rows, dtype_of())
    for name, field in fields.items():
        if name not in names:
            full_table[name] = field.absent
            continue
        expected = np.dtype((field.kind, field.shape))
        if table.dtype[name] != expected:
            raise UsageError(f"positions: {name} is {expected}, not {table.dtype[name]}")
        full_table[name] = table[name]
    return rows


def read_table(
    file: SourceFile, chunk: int, dtype: np.dtype[np.void], conditions: Sequence[_native.Where] = ()
) -> Table:
    """Reads the positions of a chunk as a table, those for which all conditions hold. Raises DataError at damage."""
    writer = _native.TableWriter(keeps_records=bool(conditions))
    file.copy_to(chunk, writer)
    table = view_as_table(writer.take_rows(), dtype)
    if not conditions:
        return table
    records = writer.take_records()
    passes = [condition.holds(records) != 0 for condition in conditions]
    return table[np.all(passes, axis=0)]
