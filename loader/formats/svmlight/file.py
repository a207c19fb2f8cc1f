"""Svmlight files as Python sees them: read, verify, print. Any numbers are good; labels are real."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from loader import _native
from loader.errors import DataError
from loader.formats.format import OnProgress, Verdict
from loader.rows.block import Rows
from loader.rows.chunks import read_chunk

_MOST = 2**32 - 1


def any_shape() -> _native.RowShape:
    """Of rows with one field of all numbers that there can be, and query numbers: 0 where there is none."""
    shape = _native.RowShape()
    shape.dense = ["label"]
    shape.qid = True
    shape.fields = [_native.RowField("features", 0, _MOST, True, _MOST)]
    shape.order = [0]
    return shape


def chunks(path: Path, progress: OnProgress | None = None) -> Iterator[tuple[Rows, DataError | None]]:
    """Of a whole file, up to the first fault. Raises DataError if it can't be opened."""
    file = _native.LineFile(path)
    reader = _native.SvmlightReader([file])
    for chunk in range(file.num_chunks):
        rows, error = read_chunk(reader, chunk, any_shape())
        yield rows, error
        if error is not None:
            return
        if progress is not None:
            progress(file.offset(chunk + 1) if chunk + 1 < file.num_chunks else file.size, file.size)


def verify(path: Path, progress: OnProgress | None = None) -> Verdict:
    """Reads every row of a file, up to the first damage."""
    entries = 0
    try:
        for rows, error in chunks(path, progress):
            entries += len(rows.dense["label"])
            if error is not None:
                return Verdict(str(path), False, entries, error.offset, error.reason)
    except DataError as error:
        return Verdict(str(path), False, entries, error.offset, error.reason)
    return Verdict(str(path), True, entries)


def dump(path: Path, limit: int | None = None) -> Iterator[bytes]:
    """Blocks of whole lines, one line a row, as svmlight. Raises DataError at damage, after the rows before it."""
    left = limit
    for rows, error in chunks(path):
        lines = list(_lines(rows, left))
        if left is not None:
            left -= len(lines)
        if lines:
            yield "".join(lines).encode()
        if left == 0:
            return
        if error is not None:
            raise error


def _lines(rows: Rows, limit: int | None) -> Iterator[str]:
    offsets, features, values = rows.sparse["features"]
    assert values is not None
    for row, (label, qid) in enumerate(zip(rows.dense["label"][:limit], rows.dense["qid"], strict=False)):
        part = slice(offsets[row], offsets[row + 1])
        pairs = [f" {number}:{_text(value)}" for number, value in zip(features[part], values[part], strict=True)]
        yield f"{_text(label)}{f' qid:{qid}' if qid else ''}{''.join(pairs)}\n"


def _text(number: np.float32) -> str:
    """The shortest that is read as the same."""
    return str(number).removesuffix(".0")
