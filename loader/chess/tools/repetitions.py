"""Positions of some files that repeat an earlier one, within a limit of memory: the longer half of `loader dedupe`.

The keys of all positions are sorted into buckets on disk by their hashes. Bucket by bucket, repetitions are found in
memory, and their numbers are sorted into windows of the input. Keys are compared as a whole, so no two positions are
taken for one. All of it lies in a work file, which a later process goes on with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.chess.positions.input import SourceFile, map_sources
from loader.chess.positions.units import Numbers
from loader.chess.tools.external_sort.kept_file import KeptFile
from loader.chess.tools.external_sort.nameless_file import NamelessFile
from loader.chess.tools.external_sort.row_spill import BUCKETS, NO_TABLE, Rows, RowSpill
from loader.errors import DataError
from loader.files.journal import State
from loader.files.work_file import WorkFile

_WORDS = 4  # of a key; the last one has the position's number above _NUMBER_BIT
ROW = 8 * _WORDS
_NUMBER_BIT = np.uint64(24)
_MOST = 1 << 40  # positions
_BITS = 8  # of a hash, for one level of buckets
_FIRST_SHIFT = 64 - _BITS
_PART = 1 << 16  # numbers read at once

# Keys of the work's state. Tables are as RowSpill has them.
_KEYS = "keys"  # table of the keys
_COUNTS = "counts"  # table of how many positions each chunk has
_REPEATED = "repeated"  # table of the numbers found
_NEXT = "next"  # file and chunk behind the keys
_POSITIONS = "positions"  # before that
_BUCKET = "bucket"  # of keys that is looked through next
START: State = {
    _KEYS: NO_TABLE,
    _COUNTS: NO_TABLE,
    _REPEATED: NO_TABLE,
    _NEXT: (0, 0),
    _POSITIONS: 0,
    _BUCKET: 0,
}


@dataclass(frozen=True)
class Limits:
    """Limits of memory, threads and disk."""

    rows: int  # keys that may be held
    threads: int


class Repetitions:
    """In work that begins as START. Raises DataError, OSError."""

    def __init__(self, work: WorkFile) -> None:
        self._work = work
        self._state: dict[str, Any] = dict(work.state)
        self._file = KeptFile(work)
        self._keys, self._counts, self._repeated = (RowSpill(self._file, words) for words in (_WORDS, 1, 1))
        for key, spill in ((_KEYS, self._keys), (_COUNTS, self._counts), (_REPEATED, self._repeated)):
            spill.read_tables(self._state[key])

    @property
    def positions(self) -> int:
        return int(self._state[_POSITIONS])

    def counts(self) -> npt.NDArray[np.int64]:
        """How many positions each chunk has, of all files."""
        parts = [rows[:, 0].astype(np.int64) for rows in self._counts.parts(0, _PART)]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def find(self, sources: Sequence[SourceFile], limits: Limits, tick: Callable[[int, int], None]) -> None:
        """All that are not found yet; `tick` gets file and chunk of what is read."""
        for batch, counts, state, last in self._batches(sources, limits, tick):
            self._counts.add_kept(counts[:, None], np.zeros(len(counts), np.uint8))
            if last and self._keys.table == NO_TABLE:
                self._tell(_repeats(batch), {**state, _BUCKET: BUCKETS})
                return
            self._keys.add_kept(batch, _bucket_of(batch, _FIRST_SHIFT))
            self._commit(state)
            del batch, counts  # before the next ones are gathered
        for bucket in range(self._state[_BUCKET], BUCKETS):
            self._state[_BUCKET] = bucket
            self._look_through(self._keys, bucket, _FIRST_SHIFT, limits.rows)
        self._commit({_BUCKET: BUCKETS})

    def windows(self, first: int) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
        """From the one of position `first` on: the window's first position, and for each one of it whether it stays."""
        total = self.positions
        for window in range(first * BUCKETS // max(total, 1), BUCKETS):
            # Number n is in window n * BUCKETS // total.
            begin, end = (-(-each * total // BUCKETS) for each in (window, window + 1))
            stays = np.ones(end - begin, np.uint8)
            for rows in self._repeated.parts(window, _PART):
                stays[rows[:, 0] - np.uint64(begin)] = 0
            yield begin, stays

    def _batches(
        self, sources: Sequence[SourceFile], limits: Limits, tick: Callable[[int, int], None]
    ) -> Iterator[tuple[Rows, Numbers, State, bool]]:
        """Keys that are not kept yet, about as many at once as may be held; of their chunks how many positions each
        has; the state behind them; and whether they are the last."""
        next_file, next_chunk = self._state[_NEXT]
        if next_file == len(sources):
            return
        waiting: list[Rows] = []
        held, positions, behind = 0, self.positions, (next_file, next_chunk)

        def batch(following: tuple[int, int]) -> tuple[Rows, Numbers, State]:
            nonlocal held
            counts = np.array([len(rows) for rows in waiting], np.uint64)
            together = np.concatenate([np.empty((0, _WORDS), np.uint64), *waiting])
            waiting.clear()
            held = 0
            return together, counts, {_NEXT: following, _POSITIONS: positions}

        def keys(file: int, chunk: int) -> Rows:
            return keys_of(sources[file], chunk)

        for file, chunk, rows in map_sources(keys, sources, limits.threads, behind):
            if waiting and held + len(rows) > limits.rows:
                yield *batch(behind), False
            rows[:, _WORDS - 1] |= np.arange(positions, positions + len(rows), dtype=np.uint64) << _NUMBER_BIT
            waiting.append(rows)
            held, positions, behind = held + len(rows), positions + len(rows), (file, chunk + 1)
            if positions > _MOST:
                raise DataError(sources[file].path, f"there are more than {_MOST:,} positions up to here")
            tick(file, chunk + 1)
        yield *batch((len(sources), 0)), True

    def _look_through(self, spill: RowSpill, bucket: int, shift: int, most: int) -> None:
        if spill.count(bucket) > most and shift > 0:
            with NamelessFile(self._work.path.parent) as file:
                finer = RowSpill(file, _WORDS)
                for rows in spill.parts(bucket, most):
                    finer.add(rows, _bucket_of(rows, shift - _BITS))
                for part in range(BUCKETS):
                    self._look_through(finer, part, shift - _BITS, most)
            return
        first = np.empty((0, _WORDS), np.uint64)  # of those read so far: more than memory holds only if all differ
        for rows in spill.parts(bucket, most):
            together = np.concatenate([first, rows])
            chosen = _native.first_of_keys(together) != 0
            self._tell(together[~chosen, _WORDS - 1] >> _NUMBER_BIT, {})
            first = together[chosen]

    def _tell(self, numbers: Numbers, state: State) -> None:
        """Keeps numbers of positions that repeat one. A later process may find some again, which does no harm."""
        if not len(numbers) and not state:
            return
        total = np.uint64(max(int(state.get(_POSITIONS, self.positions)), 1))
        self._repeated.add_kept(numbers[:, None], numbers * np.uint64(BUCKETS) // total)
        self._commit(state)

    def _commit(self, state: State) -> None:
        tables = {_KEYS: self._keys.table, _COUNTS: self._counts.table, _REPEATED: self._repeated.table}
        self._state = {**self._state, **state, **tables}
        self._file.commit(self._state)


def keys_of(source: SourceFile, chunk: int) -> Rows:
    writer = _native.KeyWriter()
    source.copy_to(chunk, writer)
    return writer.take_keys()


def _repeats(rows: Rows) -> Numbers:
    """The numbers of those of which one was before."""
    return cast(Numbers, rows[_native.first_of_keys(rows) == 0, _WORDS - 1] >> _NUMBER_BIT)


def _bucket_of(rows: Rows, shift: int) -> npt.NDArray[np.uint8]:
    return (_native.hash_keys(rows) >> np.uint64(shift)).astype(np.uint8)
