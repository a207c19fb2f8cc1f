"""Buckets of rows in a temporary file. Rows of a bucket keep the order in which they were added."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from loader.chess.tools.external_sort.unnamed_file import UnnamedFile

BUCKETS = 256
Rows = npt.NDArray[np.uint64]  # [rows, words]


class _Segment(NamedTuple):
    """Rows of one bucket in one batch of the file."""

    offset: int  # of the batch in the file
    begin: int  # number of the first row in the batch
    end: int


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

    def read_batches(self, bucket: int, max_rows: int) -> Iterator[Rows]:
        """Yields the rows of a bucket, `max_rows` rows at once."""
        segments: list[_Segment] = []
        num_rows = 0
        for offset, begin, end in self._segments(bucket):
            while begin < end:
                count = min(end - begin, max_rows - num_rows)
                segments.append(_Segment(offset, begin, begin + count))
                begin += count
                num_rows += count
                if num_rows == max_rows:
                    yield self._read(segments, num_rows)
                    segments, num_rows = [], 0
        if num_rows:
            yield self._read(segments, num_rows)

    def _segments(self, bucket: int) -> Iterator[_Segment]:
        """Yields the segments of a bucket, one for each batch that has rows of the bucket."""
        for offset, ends in self._batches:
            begin, end = int(ends[bucket - 1]) if bucket else 0, int(ends[bucket])
            if begin < end:
                yield _Segment(offset, begin, end)

    def _read(self, segments: list[_Segment], count: int) -> Rows:
        """Reads `count` rows of these segments from disk."""
        rows = np.empty((count, self._words), np.uint64)
        num_read, row_nbytes = 0, 8 * self._words
        for offset, begin, end in segments:
            self._file.seek(offset + begin * row_nbytes)
            segment_rows = rows[num_read : num_read + end - begin]
            self._file.fill(segment_rows.reshape(-1).view(np.uint8).data)
            num_read += end - begin
        return rows
