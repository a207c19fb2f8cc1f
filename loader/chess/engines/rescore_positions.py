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
from loader.chess.positions.entry import NO_SCORE, Entry, entry_of
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
        at = int(np.searchsorted(self._positions, np.uint64(position)))
        is_known = at < len(self._positions) and self._positions[at] == position
        return int(self._scores[at]) if is_known else None


class TaskReader:
    """The entries after the first `begin` of all files, in tasks of `size` entries that are numbered from 0. Several
    threads can use it."""

    def __init__(self, sources: Sequence[SourceFile], begin: int, size: int) -> None:
        self._entries = entries_from(sources, begin)
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


def entries_from(sources: Sequence[SourceFile], begin: int) -> Iterator[Entry]:
    """Yields the entries of all files after the first `begin`. Raises DataError at damage."""
    for source in sources:
        for chunk in range(source.num_chunks):
            if begin and (count := source.count(chunk)) <= begin:
                begin -= count
                continue
            for entry in source.entries(chunk):
                if begin:
                    begin -= 1
                else:
                    yield entry
        source.check_end()


def count_storable(sources: Sequence[SourceFile], target: PositionFormat) -> Iterator[tuple[int, int]]:
    """Yields after every chunk the number of entries and bytes so far.

    Raises DataError at damage, and for an entry that the target can't store, so that the error comes before all
    positions are searched.
    """
    writer = target.make_writer()
    before = 0
    for source in sources:
        for chunk in range(source.num_chunks):
            source.copy_to(chunk, writer)
            writer.take()
            yield writer.entries, before + source.offset(chunk + 1)
        source.check_end()
        before += source.size


def count_positions(
    sources: Sequence[SourceFile], target: PositionFormat, check: Callable[[], object], progress: OnProgress | None
) -> int:
    """Returns the number of positions in the files. Calls `check` after every chunk. Raises as `count_storable`."""
    size, counted = sum(source.size for source in sources), 0
    for positions, done in count_storable(sources, target):
        check()
        counted = positions
        if progress is not None:
            progress(done, size)
    return counted


def write_rescored(
    sources: Sequence[SourceFile], target: PositionFormat, scores: npt.NDArray[np.int16], *, drop: bool = False
) -> Iterator[bytes]:
    """Yields the files' entries as bytes of the target format, with the scores of `scores` in their order. With `drop`,
    entries without a score from the engine are left out. Raises DataError."""
    writer = target.make_writer()
    scored = scores <= NO_SCORE
    chosen: Any = scored.view(np.uint8)
    kept = _native.ChosenWriter(writer, chosen) if drop else writer
    with_scores = _native.RescoringWriter(kept, np.where(scored, scores, np.int16(NO_SCORE)))
    for source in sources:
        for chunk in range(source.num_chunks):
            source.copy_to(chunk, with_scores)
            if converts_by_chunk(source.format, target) and target.chunk_header is None:
                writer.finish()
            yield writer.take()
        source.check_end()
    writer.finish()
    yield writer.take()


def find_places(sources: Sequence[SourceFile], numbers: Sequence[int]) -> Iterator[str]:
    """Yields a description of each entry in `numbers` (ascending): file, line or position, and FEN. Raises
    DataError."""
    before = 0
    wanted = list(reversed(numbers))
    for source in sources:
        has_lines = source.format.codec.unit == "line"
        first = lines = 0  # entries and lines of the file before the chunk
        for chunk in range(source.num_chunks):
            if not wanted:
                return
            count = source.count(chunk)
            if not has_lines and wanted[-1] >= before + first + count:
                first += count
                continue
            walk = _native.ChunkWalk(source.opened, chunk) if has_lines else None
            entries = source.entries(chunk) if walk is None else _each(walk)
            for number, entry in enumerate(entries):
                if wanted and wanted[-1] == before + first + number:
                    wanted.pop()
                    where = f"position {first + number + 1}" if walk is None else f"line {lines + walk.units}"
                    yield f"{source.path}: {where}: {entry.fen}"
            first, lines = first + count, lines + (0 if walk is None else walk.units)
        before += first


def _each(walk: _native.ChunkWalk) -> Iterator[Entry]:
    """Yields entries one at a time, so that `walk.units` is the number of the line of each."""
    while line := walk.lines(1):
        yield entry_of(line.decode().rstrip("\n"))
