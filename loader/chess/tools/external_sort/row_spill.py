"""Buckets of rows in a temporary file. Rows of a bucket keep the order in which they were added."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from loader.chess.tools.external_sort.unnamed_file import UnnamedFile

BUCKETS = 256
Rows = npt.NDArray[np.uint64]  # [rows, words]


class RowSpill:
    """Rows of `words` 64-bit words each, sorted into 256 buckets on disk. Raises OSError."""

    def __init__(self, file: UnnamedFile, words: int) -> None:
        self._file = file
        self._words = words
        self._batches: list[tuple[int, npt.NDArray[np.int64]]] = []  # offset in the file; end of each bucket, in rows

    @property
    def is_empty(self) -> bool:
        return not self._batches

    def add(self, rows: Rows, buckets: npt.NDArray[Any]) -> None:
        """Appends rows. `buckets` has the bucket of each row, below BUCKETS."""
        if not len(rows):
            return
        ends = np.cumsum(np.bincount(buckets, minlength=BUCKETS))
        self._batches.append((self._file.size, ends))
        order = np.argsort(buckets.astype(np.uint8), kind="stable")
        self._file.write(np.ascontiguousarray(rows[order]).reshape(-1).view(np.uint8).data)

    def count(self, bucket: int) -> int:
        """Returns the number of rows in a bucket."""
        return sum(end - begin for _, begin, end in self._segments(bucket))

    def parts(self, bucket: int, most: int) -> Iterator[Rows]:
        """Yields the rows of a bucket, `most` rows at once."""
        waiting: list[tuple[int, int, int]] = []
        held = 0
        for offset, begin, end in self._segments(bucket):
            while begin < end:
                taken = min(end - begin, most - held)
                waiting.append((offset, begin, begin + taken))
                begin, held = begin + taken, held + taken
                if held == most:
                    yield self._read(waiting, held)
                    waiting, held = [], 0
        if held:
            yield self._read(waiting, held)

    def _segments(self, bucket: int) -> Iterator[tuple[int, int, int]]:
        """Yields the parts of a bucket: for each batch that has rows of the bucket the batch's offset in the file, and
        the first and last + 1 of these rows."""
        for offset, ends in self._batches:
            begin, end = int(ends[bucket - 1]) if bucket else 0, int(ends[bucket])
            if begin < end:
                yield offset, begin, end

    def _read(self, segments: list[tuple[int, int, int]], count: int) -> Rows:
        """Reads `count` rows of these segments from disk."""
        rows = np.empty((count, self._words), np.uint64)
        at, size = 0, 8 * self._words
        for offset, begin, end in segments:
            self._file.seek(offset + begin * size)
            self._file.fill(rows[at : at + end - begin].reshape(-1).view(np.uint8).data)
            at += end - begin
        return rows
