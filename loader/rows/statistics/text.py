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
    left = limit
    for rows, error in chunks:
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
    labels = rows.dense["label"][:limit]
    queries = rows.dense.get("qid", np.full(len(labels), NO_QID))
    for row, (label, qid) in enumerate(zip(labels, queries, strict=False)):
        part = slice(offsets[row], offsets[row + 1])
        weights = np.ones(part.stop - part.start, np.float32) if values is None else values[part]
        pairs = [f" {number}:{_text(value)}" for number, value in zip(features[part], weights, strict=True)]
        yield f"{_text(label)}{'' if qid == NO_QID else f' qid:{qid}'}{''.join(pairs)}\n"


def _text(number: np.floating) -> str:
    """Returns the shortest text that is read as the same float32."""
    return str(np.float32(number)).removesuffix(".0")
