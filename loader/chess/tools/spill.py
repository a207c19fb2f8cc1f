"""Units on disk, in buckets by the first bits of their draws: what `loader shuffle` does not hold in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from loader.chess.files.units import Numbers, UnitBlock

BITS = 8
BUCKETS = 1 << BITS
_TABLES = 20  # bytes a unit takes besides its own: draw, end, entries


class Drawn:
    """Units and their draws, in the order of the input."""

    def __init__(self, block: UnitBlock, keys: Numbers) -> None:
        self.block = block
        self.keys = keys

    @staticmethod
    def cost_of(data: int, units: int) -> int:
        """Bytes of memory that such take: each has its draw, begin, end, entries, and a place in the order."""
        return data + 44 * units


class Spill:
    """A file without a name, so nothing remains of it however the process ends. A context manager.

    `shift`: the bucket is bits `shift` to `shift` + 7 of a draw. Raises OSError.
    """

    def __init__(self, folder: Path, shift: int) -> None:
        self._folder = folder
        self._shift = shift
        self._places: list[Numbers] = []  # of each batch: where its part of each bucket begins; the last one's end
        self._units: list[npt.NDArray[np.uint32]] = []  # of each batch: how many are in each bucket
        self._end = 0

    def __enter__(self) -> Self:
        self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, drawn: Drawn) -> None:
        buckets = (drawn.keys >> np.uint64(self._shift) & np.uint64(BUCKETS - 1)).astype(np.uint8)
        order = np.argsort(buckets, kind="stable")
        units = np.bincount(buckets, minlength=BUCKETS)
        ends = np.cumsum(units)
        places = np.full(BUCKETS + 1, self._end, np.uint64)
        for bucket in range(BUCKETS):
            chosen = order[ends[bucket] - units[bucket] : ends[bucket]]
            block = drawn.block.take(chosen)
            for part in (drawn.keys[chosen], block.ends, block.entries, block.bytes):
                self._write(part.view(np.uint8).data)
            places[bucket + 1] = self._end
        self._places.append(places)
        self._units.append(units.astype(np.uint32))

    def buckets(self) -> Iterator[int]:
        """Those that are not empty, by ascending draws."""
        held = np.sum(self._units, axis=0) if self._units else ()
        yield from (int(bucket) for bucket in np.flatnonzero(held))

    def cost(self, bucket: int) -> int:
        return sum(Drawn.cost_of(data, units) for _, data, units in self._segments(bucket))

    def parts(self, bucket: int, held: int) -> Iterator[Drawn]:
        """In the order of the input, as much at once as costs up to `held` bytes."""
        together: list[tuple[int, int, int]] = []
        cost = 0
        for segment in self._segments(bucket):
            more = Drawn.cost_of(*segment[1:])
            if together and cost + more > held:
                yield self._read(together)
                together, cost = [], 0
            together.append(segment)
            cost += more
        yield self._read(together)

    def read(self, bucket: int) -> Drawn:
        """All of it."""
        return self._read(list(self._segments(bucket)))

    def _segments(self, bucket: int) -> Iterator[tuple[int, int, int]]:
        """Offset in the file, bytes of units, how many."""
        for places, counts in zip(self._places, self._units, strict=True):
            begin, end, units = int(places[bucket]), int(places[bucket + 1]), int(counts[bucket])
            if units:
                yield begin, end - begin - _TABLES * units, units

    def _read(self, segments: Sequence[tuple[int, int, int]]) -> Drawn:
        units, size = sum(units for _, _, units in segments), sum(data for _, data, _ in segments)
        keys, ends, entries = np.empty(units, np.uint64), np.empty(units, np.uint64), np.empty(units, np.uint32)
        data = np.empty(size, np.uint8)
        unit = byte = 0
        for offset, length, count in segments:
            self._file.seek(offset)
            parts = (keys[unit : unit + count], ends[unit : unit + count], entries[unit : unit + count])
            for part in (*parts, data[byte : byte + length]):
                self._fill(part.view(np.uint8).data)
            parts[1][:] += np.uint64(byte)
            unit, byte = unit + count, byte + length
        return Drawn(UnitBlock(data, ends, entries), keys)

    def _fill(self, rest: memoryview) -> None:
        while rest:
            rest = rest[self._file.readinto(rest) or 0 :]

    def _write(self, rest: memoryview) -> None:
        try:
            while rest:
                written = self._file.write(rest) or 0
                rest, self._end = rest[written:], self._end + written
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._folder)) from None
