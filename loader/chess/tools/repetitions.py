"""Finds positions that repeat an earlier position of the input, within a limit of memory: the first half of `loader
dedupe`.

The keys of all positions are sorted into buckets on disk by their hashes. Repetitions are then found in memory, bucket
by bucket, and their numbers are sorted into windows of the input. Whole keys are compared, so two different positions
are never taken for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.chess.positions.input import SourceFile, map_sources
from loader.chess.positions.units import Numbers
from loader.chess.tools.external_sort.row_spill import BUCKETS, Rows, RowSpill
from loader.chess.tools.external_sort.unnamed_file import UnnamedFile
from loader.errors import DataError

_WORDS = 4  # 64-bit words of a key; the last one holds the position's number above _NUMBER_BIT
ROW = 8 * _WORDS
_NUMBER_BIT = np.uint64(24)
_MAX_POSITIONS = 1 << 40  # positions at most, so that their number fits into a key
_BITS = 8  # bits of the hash that choose the bucket on one level
_FIRST_SHIFT = 64 - _BITS
_NUMBERS_PER_READ = 1 << 16  # numbers of positions that are read at once


@dataclass(frozen=True)
class Limits:
    """Limits of memory and threads."""

    rows: int  # keys that memory may hold
    threads: int


class Repetitions:
    """Finds positions that repeat an earlier one. A context manager: data for which memory is too small are put into
    files without names in `folder`.

    `positions` is the number of positions that `find` has read. `counts` has the number of positions of each chunk,
    over all files. Raises DataError, OSError.
    """

    def __init__(self, folder: Path) -> None:
        self.positions = 0
        self.counts: list[int] = []
        self._folder = folder
        self._files = ExitStack()

    def __enter__(self) -> Self:
        self._keys, self._repeated = (
            RowSpill(self._files.enter_context(UnnamedFile(self._folder)), words) for words in (_WORDS, 1)
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.close()

    def find(self, sources: Sequence[SourceFile], limits: Limits, on_progress: Callable[[int, int], None]) -> None:
        """Reads all sources and finds the positions that repeat an earlier one. Calls `on_progress` with file and chunk
        as reading goes on."""
        for batch, is_last in self._batches(sources, limits, on_progress):
            if is_last and self._keys.is_empty:
                self._record_repeated(_find_repeated(batch))
                return
            self._keys.add(batch, _bucket_of(batch, _FIRST_SHIFT))
            del batch  # frees its memory before the next batch is read
        for bucket in range(BUCKETS):
            self._find_in_bucket(self._keys, bucket, _FIRST_SHIFT, limits.rows)

    def windows(self) -> Iterator[npt.NDArray[np.uint8]]:
        """Yields arrays with a byte for each position, in the order of the input: 1 if the position repeats no earlier
        one, 0 if it does."""
        for window in range(BUCKETS):
            # Number n is in window n * BUCKETS // positions.
            begin = -(-window * self.positions // BUCKETS)
            end = -(-(window + 1) * self.positions // BUCKETS)
            is_first = np.ones(end - begin, np.uint8)
            for rows in self._repeated.read_batches(window, _NUMBERS_PER_READ):
                is_first[rows[:, 0] - np.uint64(begin)] = 0
            yield is_first

    def _batches(
        self, sources: Sequence[SourceFile], limits: Limits, on_progress: Callable[[int, int], None]
    ) -> Iterator[tuple[Rows, bool]]:
        """Yields the keys of all positions in batches of about as many as memory may hold, each with a flag that marks
        the last batch."""
        pending: list[Rows] = []
        num_pending = 0

        def pop_batch() -> Rows:
            nonlocal num_pending
            batch = np.concatenate([np.empty((0, _WORDS), np.uint64), *pending])
            pending.clear()
            num_pending = 0
            return batch

        def read_chunk_keys(file: int, chunk: int) -> Rows:
            return read_keys(sources[file], chunk)

        for file, chunk, rows in map_sources(read_chunk_keys, sources, limits.threads):
            if pending and num_pending + len(rows) > limits.rows:
                yield pop_batch(), False
            numbers = np.arange(self.positions, self.positions + len(rows), dtype=np.uint64)
            rows[:, _WORDS - 1] |= numbers << _NUMBER_BIT
            pending.append(rows)
            self.counts.append(len(rows))
            num_pending += len(rows)
            self.positions += len(rows)
            if self.positions > _MAX_POSITIONS:
                raise DataError(sources[file].path, f"there are more than {_MAX_POSITIONS:,} positions up to here")
            on_progress(file, chunk + 1)
        yield pop_batch(), True

    def _find_in_bucket(self, spill: RowSpill, bucket: int, shift: int, max_rows: int) -> None:
        """Finds repetitions among the keys of a bucket. A bucket with more than `max_rows` keys is first divided into
        finer buckets on disk, by the next bits of the hash."""
        if spill.count(bucket) > max_rows and shift > 0:
            with UnnamedFile(self._folder) as file:
                finer = RowSpill(file, _WORDS)
                for rows in spill.read_batches(bucket, max_rows):
                    finer.add(rows, _bucket_of(rows, shift - _BITS))
                for finer_bucket in range(BUCKETS):
                    self._find_in_bucket(finer, finer_bucket, shift - _BITS, max_rows)
            return
        unique = np.empty((0, _WORDS), np.uint64)  # keys read so far, without repetitions
        for rows in spill.read_batches(bucket, max_rows):
            keys = np.concatenate([unique, rows])
            is_first = _native.first_of_keys(keys) != 0
            self._record_repeated(keys[~is_first, _WORDS - 1] >> _NUMBER_BIT)
            unique = keys[is_first]

    def _record_repeated(self, numbers: Numbers) -> None:
        """Records the numbers of positions that repeat an earlier one."""
        if len(numbers):
            self._repeated.add(numbers[:, None], numbers * np.uint64(BUCKETS) // np.uint64(self.positions))


def read_keys(source: SourceFile, chunk: int) -> Rows:
    """Returns the sorting keys of a chunk's positions, [positions, 4] uint64."""
    writer = _native.KeyWriter()
    source.copy_to(chunk, writer)
    return writer.take_keys()


def _find_repeated(rows: Rows) -> Numbers:
    """Returns the numbers of positions whose key repeats an earlier one in `rows`."""
    return cast(Numbers, rows[_native.first_of_keys(rows) == 0, _WORDS - 1] >> _NUMBER_BIT)


def _bucket_of(rows: Rows, shift: int) -> npt.NDArray[np.uint8]:
    """Returns the bucket of each key: 8 bits of its hash from bit `shift` on."""
    return (_native.hash_keys(rows) >> np.uint64(shift)).astype(np.uint8)
