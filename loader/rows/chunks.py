"""Chunks of a native reader, for those who read them in Python."""

from __future__ import annotations

from loader import _native
from loader.errors import DataChangedError, DataError
from loader.files.identity import DataFile
from loader.rows.block import Rows, Sparse
from loader.rows.fields import QID


def whole_size(file: DataFile) -> int:
    """Returns the size of a file of lines without a last line that has no end yet."""
    return _native.LineFile(file.path, file.identity, may_grow=True).whole_size


def read_chunk(reader: _native.RowReader, chunk: int, shape: _native.RowShape) -> tuple[Rows, DataError | None]:
    """The rows of a chunk, and what is wrong behind them. The names of the rows are those of the shape."""
    numbers, qid, fields, fault = _native.read_rows(reader, chunk, shape)
    dense = dict(zip(shape.dense, numbers, strict=True)) | ({} if qid is None else {QID: qid})
    sparse: dict[str, Sparse] = {field.name: arrays for field, arrays in zip(shape.fields, fields, strict=True)}
    rows = Rows(dense, sparse)
    if fault is None:
        return rows, None
    file, reason, offset, kind = fault
    return rows, (DataChangedError if kind == "changed" else DataError)(file, reason, offset)
