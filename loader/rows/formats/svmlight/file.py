"""Reads svmlight files without settings: any feature numbers are allowed, labels are real."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from loader import _native
from loader.errors import DataError
from loader.formats.format import OnProgress
from loader.rows.block import Rows
from loader.rows.chunks import read_native_chunk
from loader.rows.fields import NO_QID

_MAX_UINT32 = 2**32 - 1


def unrestricted_shape() -> _native.RowShape:
    """Returns the shape of rows that have a single field with all possible feature numbers, and query numbers. A row
    without a query number has `NO_QID`."""
    shape = _native.RowShape()
    shape.dense = ["label"]
    shape.qid, shape.missing_qid = True, NO_QID
    shape.fields = [_native.RowField("features", 0, _MAX_UINT32, True, _MAX_UINT32)]
    return shape


def read_chunks(path: Path, progress: OnProgress | None = None) -> Iterator[tuple[Rows, DataError | None]]:
    """Yields the rows of each chunk, with the fault that follows them or None, up to the first fault. Raises DataError
    if the file can't be opened."""
    file = _native.LineFile(path)
    reader = _native.SvmlightReader([file])
    for chunk in range(file.num_chunks):
        rows, error = read_native_chunk(reader, chunk, unrestricted_shape())
        yield rows, error
        if error is not None:
            return
        if progress is not None:
            progress(file.offset(chunk + 1) if chunk + 1 < file.num_chunks else file.size, file.size)
