"""Units on disk, in buckets by the first bits of their draws: what `loader shuffle` does not hold in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from loader import _native
from loader.chess.positions.units import Bytes, Numbers, UnitBlock, block_of
from loader.chess.tools.external_sort.kept_file import KeptFile
from loader.chess.tools.external_sort.nameless_file import NamelessFile

BITS = 8
BUCKETS = 1 << BITS
HEADER = 16  # bytes of a drawn unit before those of the unit: its draw, size, entries
GATHERED = 4 << 20  # bytes of units gathered at once, more or less


@dataclass(frozen=True)
class Buckets:
    """Drawn units in memory, by bits of their draws; those of a bucket in the order of the input."""

    units: Bytes
    begin: Numbers  # of each bucket in `units`; the last one's end

    @classmethod
    def of_blocks(cls, blocks: Sequence[tuple[UnitBlock, Numbers]], shift: int) -> Buckets:
        """Units and their draws; the bucket is bits `shift` to `shift` + 7 of a draw."""
        parts = [(block.bytes, block.ends, block.entries, draws) for block, draws in blocks]
        return cls(*cast(tuple[Bytes, Numbers], _native.units_into_buckets(parts, shift)))

    @classmethod
    def of_drawn(cls, drawn: Bytes, shift: int) -> Buckets:
        return cls(*cast(tuple[Bytes, Numbers], _native.drawn_into_buckets(drawn, shift)))

    def drawn(self, bucket: int) -> Bytes:
        return self.units[int(self.begin[bucket]) : int(self.begin[bucket + 1])]


class Spill:
    """Batches of drawn units in a file. Raises OSError."""

    def __init__(self, file: NamelessFile | KeptFile) -> None:
        self._file = file
        self._begin: list[Numbers] = []  # of each batch: where its part of each bucket begins; the last one's end

    def add(self, batch: Buckets) -> None:
        self._begin.append(batch.begin + np.uint64(self._file.size))
        self._file.write(batch.units.data)

    def write_table(self) -> int:
        """Writes down where the last batch lies, behind it; where that is written."""
        place = self._file.size
        self._file.write(self._begin[-1].view(np.uint8).data)
        return place

    def read_table(self, place: int) -> None:
        """Takes a batch that an earlier process has written; `place`: as `write_table` said."""
        begin = np.empty(BUCKETS + 1, np.uint64)
        self._file.seek(place)
        self._file.fill(begin.view(np.uint8).data)
        self._begin.append(begin)

    def size(self, bucket: int) -> int:
        """Bytes of its drawn units."""
        return sum(size for _, size in self._segments(bucket))

    def parts(self, bucket: int, held: int) -> Iterator[Bytes]:
        """Its drawn units in the order of the input; at once up to `held` bytes, or one batch's part of them."""
        together: list[tuple[int, int]] = []
        for segment in self._segments(bucket):
            if together and sum(size for _, size in together) + segment[1] > held:
                yield self._read(together)
                together = []
            together.append(segment)
        if together:
            yield self._read(together)

    def read(self, bucket: int) -> Bytes:
        """All of it."""
        return self._read(list(self._segments(bucket)))

    def _segments(self, bucket: int) -> Iterator[tuple[int, int]]:
        """Offset in the file, bytes."""
        for begin in self._begin:
            if size := int(begin[bucket + 1] - begin[bucket]):
                yield int(begin[bucket]), size

    def _read(self, segments: Sequence[tuple[int, int]]) -> Bytes:
        drawn = np.empty(sum(size for _, size in segments), np.uint8)
        filled = 0
        for offset, size in segments:
            self._file.seek(offset)
            self._file.fill(drawn[filled : filled + size].data)
            filled += size
        return drawn


def by_draw(drawn: Bytes) -> Iterator[UnitBlock]:
    """Drawn units, some at once, by ascending draws; equal ones in the order of the input."""
    places = cast(Numbers, _native.places_by_draw(drawn))
    if not len(places):
        return
    step = max(1, GATHERED * len(places) // len(drawn))
    for begin in range(0, len(places), step):
        yield block_of(_native.drawn_units_at(drawn, places[begin : begin + step]))
