"""Reads chunks of a native reader as numpy arrays."""

from __future__ import annotations

from loader import _native
from loader.errors import DataChangedError, DataError
from loader.files.identity import DataFile
from loader.rows.block import Rows, Sparse
from loader.rows.fields import QID


def whole_size(file: DataFile) -> int:
    """Returns the size in bytes of a text file without an unfinished last line."""
    return _native.LineFile(file.path, file.identity, may_grow=True).whole_size


def read_native_chunk(reader: _native.RowReader, chunk: int, shape: _native.RowShape) -> tuple[Rows, DataError | None]:
    """Returns the rows of a chunk up to the first fault, and the fault, if there is one. The arrays are named as in
    `shape`."""
    numbers, qid, fields, fault = _native.read_rows(reader, chunk, shape)
    dense = dict(zip(shape.dense, numbers, strict=True)) | ({} if qid is None else {QID: qid})
    sparse: dict[str, Sparse] = {field.name: arrays for field, arrays in zip(shape.fields, fields, strict=True)}
    rows = Rows(dense, sparse)
    if fault is None:
        return rows, None
    file, reason, offset, kind = fault
    return rows, (DataChangedError if kind == "changed" else DataError)(file, reason, offset)
