"""Reads positions of files as tasks for engines, and writes the files with new scores."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.chess.positions.entry import NO_SCORE, Entry, parse_entry
from loader.chess.positions.format import PositionFormat
from loader.chess.positions.input import SourceFile, converts_by_chunk
from loader.formats.format import OnProgress

# A record of the work file: hash of a position, and its score for the side to move or the code why it has none.
RECORD = np.dtype([("position", "<u8"), ("score", "<i2")])
SILENT = NO_SCORE + 1  # in a record: the engine printed no exact score
FAILED = NO_SCORE + 2  # in a record: the engine crashed or did not answer, twice
Records = npt.NDArray[np.void]


def hash_position(entry: Entry) -> int:
    """Returns a hash of 64 bits that identifies a position. It covers the FEN, which is all that an engine gets."""
    return int.from_bytes(hashlib.blake2b(entry.fen.encode(), digest_size=8).digest(), "little")


class ScoreTable:
    """A table of scores by the hash of the position, to find scores of positions that now stand elsewhere in the
    files."""

    def __init__(self, records: Records) -> None:
        order = np.argsort(records["position"])
        self._positions: npt.NDArray[np.uint64] = records["position"][order]
        self._scores: npt.NDArray[np.int16] = records["score"][order]

    def get(self, position: int) -> int | None:
        """Returns the score of a position, given its hash, or None if it was not searched."""
        index = int(np.searchsorted(self._positions, np.uint64(position)))
        if index == len(self._positions) or self._positions[index] != position:
            return None
        return int(self._scores[index])


class TaskReader:
    """Reads the entries of all files from number `first` on, in tasks of `size` entries that are numbered from 0.
    Several threads can use it."""

    def __init__(self, sources: Sequence[SourceFile], first: int, size: int) -> None:
        self._entries = read_entries_from(sources, first)
        self._size = size
        self._lock = threading.Lock()
        self._read: dict[int, list[Entry]] = {}
        self._next = 0

    def entries(self, number: int) -> list[Entry]:
        """Returns the entries of a task, or an empty list after the last task. Raises DataError."""
        with self._lock:
            while self._next <= number:
                self._read[self._next] = list(islice(self._entries, self._size))
                self._next += 1
            return self._read[number]

    def forget(self, number: int) -> None:
        """Frees the entries of a task that is done."""
        with self._lock:
            del self._read[number]


def read_entries_from(sources: Sequence[SourceFile], first: int) -> Iterator[Entry]:
    """Yields the entries of all files from number `first` on. Raises DataError at damage."""
    num_skipped = first
    for source in sources:
        for chunk in range(source.num_chunks):
            if num_skipped:
                count = source.count(chunk)
                if count <= num_skipped:
                    num_skipped -= count
                    continue
            yield from islice(source.entries(chunk), num_skipped, None)
            num_skipped = 0
        source.check_end()


def count_storable(sources: Sequence[SourceFile], target: PositionFormat) -> Iterator[tuple[int, int]]:
    """Counts the entries that the target can store. Yields after every chunk the number of entries and bytes so far.

    Raises DataError at damage, and for an entry that the target can't store, so that the error comes before all
    positions are searched.
    """
    writer = target.make_writer()
    bytes_of_done_files = 0
    for source in sources:
        for chunk in range(source.num_chunks):
            source.copy_to(chunk, writer)
            writer.take()
            yield writer.entries, bytes_of_done_files + source.offset(chunk + 1)
        source.check_end()
        bytes_of_done_files += source.size


def count_positions(
    sources: Sequence[SourceFile], target: PositionFormat, check: Callable[[], object], progress: OnProgress | None
) -> int:
    """Returns the number of positions in the files. Calls `check` after every chunk. Raises as `count_storable`."""
    num_bytes, num_positions = sum(source.size for source in sources), 0
    for counted, done in count_storable(sources, target):
        num_positions = counted
        check()
        if progress is not None:
            progress(done, num_bytes)
    return num_positions


def write_rescored(
    sources: Sequence[SourceFile], target: PositionFormat, scores: npt.NDArray[np.int16], *, drop: bool = False
) -> Iterator[bytes]:
    """Yields the files' entries as bytes of the target format, with the scores of `scores` in their order. With `drop`,
    entries without a score from the engine are left out. Raises DataError."""
    writer = target.make_writer()
    has_score = scores <= NO_SCORE
    flags: Any = has_score.view(np.uint8)
    scored_writer = _native.ChosenWriter(writer, flags) if drop else writer
    rescoring_writer = _native.RescoringWriter(scored_writer, np.where(has_score, scores, np.int16(NO_SCORE)))
    for source in sources:
        for chunk in range(source.num_chunks):
            source.copy_to(chunk, rescoring_writer)
            if converts_by_chunk(source.format, target) and target.chunk_header is None:
                writer.finish()
            yield writer.take()
        source.check_end()
    writer.finish()
    yield writer.take()


def find_places(sources: Sequence[SourceFile], indices: Sequence[int]) -> Iterator[str]:
    """Yields a description of each entry in `indices` (ascending, over all files): file, line or position, and FEN.
    Raises DataError."""
    remaining = list(reversed(indices))
    first_of_file = 0
    for source in sources:
        first_of_chunk = first_of_file
        lines_before_chunk = 0
        has_lines = source.format.codec.unit == "line"
        for chunk in range(source.num_chunks):
            if not remaining:
                return
            first_of_next_chunk = first_of_chunk + source.count(chunk)
            if has_lines:
                walk = _native.ChunkWalk(source.opened, chunk)
                for index, entry in enumerate(_read_one_by_one(walk), first_of_chunk):
                    if remaining and remaining[-1] == index:
                        remaining.pop()
                        yield f"{source.path}: line {lines_before_chunk + walk.units}: {entry.fen}"
                lines_before_chunk += walk.units
            elif remaining[-1] < first_of_next_chunk:
                for index, entry in enumerate(source.entries(chunk), first_of_chunk):
                    if remaining and remaining[-1] == index:
                        remaining.pop()
                        yield f"{source.path}: position {index - first_of_file + 1}: {entry.fen}"
            first_of_chunk = first_of_next_chunk
        first_of_file = first_of_chunk


def _read_one_by_one(walk: _native.ChunkWalk) -> Iterator[Entry]:
    """Yields the entries of a chunk, each read when it is requested, so that `walk.units` is the number of its line."""
    while True:
        line = walk.lines(1)
        if not line:
            return
        yield parse_entry(line.decode().rstrip("\n"))
