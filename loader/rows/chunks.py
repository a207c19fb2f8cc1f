"""Reads chunks of a native reader as numpy arrays."""

from __future__ import annotations

from loader import _native
from loader.errors import DataChangedError, DataError
from loader.files.identity import DataFile
from loader.rows.block import Array, Rows, Sparse
from loader.rows.fields import QID


def whole_size(file: DataFile) -> int:
    """Returns the size in bytes of a text file without an unfinished last line."""
    return _native.LineFile(file.path, file.identity, may_grow=True).whole_size


def read_native_chunk(reader: _native.RowReader, chunk: int, shape: _native.RowShape) -> tuple[Rows, DataError | None]:
    """Returns the rows of a chunk up to the first fault, and the fault, if there is one. The arrays are named as in
    `shape`."""
    dense_arrays, qid, sparse_arrays, fault = _native.read_rows(reader, chunk, shape)
    dense: dict[str, Array] = dict(zip(shape.dense, dense_arrays, strict=True))
    if qid is not None:
        dense[QID] = qid
    names = [field.name for field in shape.fields]
    sparse: dict[str, Sparse] = dict(zip(names, sparse_arrays, strict=True))
    return Rows(dense, sparse), None if fault is None else to_data_error(fault)


def to_data_error(fault: tuple[str, str, int | None, str]) -> DataError:
    """Returns the error for a fault of the native part: (file, reason, offset, kind)."""
    file, reason, offset, kind = fault
    if kind == "changed":
        return DataChangedError(file, reason, offset)
    return DataError(file, reason, offset)
