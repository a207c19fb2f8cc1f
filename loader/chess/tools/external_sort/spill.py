"""Buckets of units in a temporary file, by the leading bits of the units' random numbers (draws). `loader shuffle` puts
there what memory can't hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from loader import _native
from loader.chess.positions.units import Bytes, Numbers, UnitBlock, unit_block
from loader.chess.tools.external_sort.resumable_file import ResumableFile
from loader.chess.tools.external_sort.unnamed_file import UnnamedFile

BITS = 8
BUCKETS = 1 << BITS
HEADER = 16  # bytes before each unit in a bucket: its draw, size and number of entries
GATHERED = 4 << 20  # bytes of sorted units that are copied into one block, about


@dataclass(frozen=True)
class Buckets:
    """Units with their draws in memory, sorted into 256 buckets by 8 bits of the draws. Units of a bucket keep the
    order of the input."""

    units: Bytes
    begin: Numbers  # [257] offset of each bucket in `units`, then the end of the last one

    @classmethod
    def of_blocks(cls, blocks: Sequence[tuple[UnitBlock, Numbers]], shift: int) -> Buckets:
        """Sorts blocks of units with their draws into buckets. The bucket of a unit is bits `shift` to `shift` + 7 of
        its draw."""
        parts = [(block.bytes, block.ends, block.entries, draws) for block, draws in blocks]
        return cls(*cast(tuple[Bytes, Numbers], _native.units_into_buckets(parts, shift)))

    @classmethod
    def of_drawn(cls, drawn: Bytes, shift: int) -> Buckets:
        """Sorts drawn units (units with a header that holds their draw) into buckets, by bits `shift` to `shift` + 7 of
        the draws."""
        return cls(*cast(tuple[Bytes, Numbers], _native.drawn_into_buckets(drawn, shift)))

    def drawn(self, bucket: int) -> Bytes:
        """Returns the drawn units of a bucket."""
        return self.units[int(self.begin[bucket]) : int(self.begin[bucket + 1])]


class Spill:
    """Batches of units in a file, each sorted into buckets. Raises OSError."""

    def __init__(self, file: UnnamedFile | ResumableFile) -> None:
        self._file = file
        self._begin: list[Numbers] = []  # for each batch [257] file offsets of its buckets, then the last one's end

    def add(self, batch: Buckets) -> None:
        """Appends a batch to the file."""
        self._begin.append(batch.begin + np.uint64(self._file.size))
        self._file.write(batch.units.data)

    def write_table(self) -> int:
        """Appends a table that says where the buckets of the last batch begin. Returns the table's offset in the file,
        for `read_table`."""
        offset = self._file.size
        self._file.write(self._begin[-1].view(np.uint8).data)
        return offset

    def read_table(self, offset: int) -> None:
        """Adds a batch that an earlier process has written. `offset` is that of its table in the file, as `write_table`
        returned it."""
        begin = np.empty(BUCKETS + 1, np.uint64)
        self._file.seek(offset)
        self._file.fill(begin.view(np.uint8).data)
        self._begin.append(begin)

    def size(self, bucket: int) -> int:
        """Returns the bytes of a bucket's drawn units."""
        return sum(size for _, size in self._segments(bucket))

    def read_batches(self, bucket: int, max_nbytes: int) -> Iterator[Bytes]:
        """Yields the drawn units of a bucket in the order of the input, up to `max_nbytes` bytes at once, and at least
        one batch's part of the bucket."""
        segments: list[tuple[int, int]] = []
        num_bytes = 0
        for offset, size in self._segments(bucket):
            if segments and num_bytes + size > max_nbytes:
                yield self._read(segments)
                segments, num_bytes = [], 0
            segments.append((offset, size))
            num_bytes += size
        if segments:
            yield self._read(segments)

    def read(self, bucket: int) -> Bytes:
        """Returns all drawn units of a bucket."""
        return self._read(list(self._segments(bucket)))

    def _segments(self, bucket: int) -> Iterator[tuple[int, int]]:
        """Yields offset in the file and size in bytes of each batch's part of a bucket."""
        for begin in self._begin:
            size = int(begin[bucket + 1] - begin[bucket])
            if size:
                yield int(begin[bucket]), size

    def _read(self, segments: Sequence[tuple[int, int]]) -> Bytes:
        drawn = np.empty(sum(size for _, size in segments), np.uint8)
        num_read = 0
        for offset, size in segments:
            self._file.seek(offset)
            self._file.fill(drawn[num_read : num_read + size].data)
            num_read += size
        return drawn


def sort_by_draw(drawn: Bytes) -> Iterator[UnitBlock]:
    """Sorts drawn units by their draws, equal ones in the order of the input. Yields them in blocks of about 4 MiB."""
    places = _native.places_by_draw(drawn)
    if not len(places):
        return
    step = max(1, GATHERED * len(places) // len(drawn))
    for begin in range(0, len(places), step):
        yield unit_block(_native.drawn_units_at(drawn, places[begin : begin + step]))
