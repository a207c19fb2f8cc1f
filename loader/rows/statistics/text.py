"""Writes rows as lines of svmlight text, for `loader dump`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from loader.errors import DataError
from loader.rows.block import Rows
from loader.rows.fields import NO_QID

Chunks = Iterable[
    tuple[Rows, DataError | None]
]  # rows with `label`, `features`, and perhaps `qid`; the fault that follows them, or None


def count_rows(chunks: Chunks) -> Iterator[tuple[int, DataError | None]]:
    """Yields the number of rows in each chunk, with the fault that follows them or None."""
    for rows, error in chunks:
        yield len(rows.dense["label"]), error


def format_rows(chunks: Chunks, limit: int | None = None) -> Iterator[bytes]:
    """Yields rows as text, one line a row, in blocks of whole lines. Raises DataError at damage, after the rows before
    it."""
    remaining = limit
    for rows, error in chunks:
        lines = list(_svmlight_lines(rows, remaining))
        if remaining is not None:
            remaining -= len(lines)
        if lines:
            yield "".join(lines).encode()
        if remaining == 0:
            return
        if error is not None:
            raise error


def _svmlight_lines(rows: Rows, limit: int | None) -> Iterator[str]:
    """Yields at most `limit` rows as lines LABEL [qid:NUMBER] FEATURE:VALUE ..."""
    offsets, features, values = rows.sparse["features"]
    if values is None:
        values = np.ones(len(features), np.float32)
    labels = rows.dense["label"][:limit]
    queries = rows.dense.get("qid", np.full(len(labels), NO_QID))
    for row, (label, qid) in enumerate(zip(labels, queries, strict=False)):
        fields = [_format_float(label)]
        if qid != NO_QID:
            fields.append(f"qid:{qid}")
        entries = slice(offsets[row], offsets[row + 1])
        for feature, value in zip(features[entries], values[entries], strict=True):
            fields.append(f"{feature}:{_format_float(value)}")
        yield f"{' '.join(fields)}\n"


def _format_float(number: np.floating) -> str:
    """Returns the shortest text that is read as the same float32."""
    return str(np.float32(number)).removesuffix(".0")
