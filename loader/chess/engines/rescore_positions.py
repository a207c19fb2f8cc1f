"""The positions of some files, in tasks for engines, and their entries with other scores."""

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
from loader.chess.positions.input import SourceFile, parted_by_chunks
from loader.formats.format import OnProgress

# What a work file holds of each position: which it is, and its score, of the side to move, or why it has none.
RECORD = np.dtype([("position", "<u8"), ("score", "<i2")])
SILENT = NO_SCORE + 1  # the engine printed no score
FAILED = NO_SCORE + 2  # it crashed or did not answer, twice
Records = npt.NDArray[np.void]


def position_of(entry: Entry) -> int:
    """Returns what tells a position from others: as good as the FEN, which is all that an engine gets."""
    return int.from_bytes(hashlib.blake2b(entry.fen.encode(), digest_size=8).digest(), "little")


class KnownScores:
    """Scores by position, wherever the positions stand in the files by now."""

    def __init__(self, records: Records) -> None:
        order = np.argsort(records["position"])
        self._positions: npt.NDArray[np.uint64] = records["position"][order]
        self._scores: npt.NDArray[np.int16] = records["score"][order]

    def get(self, position: int) -> int | None:
        at = int(np.searchsorted(self._positions, np.uint64(position)))
        is_known = at < len(self._positions) and self._positions[at] == position
        return int(self._scores[at]) if is_known else None


class Tasks:
    """The entries behind the first `begin`, `size` for each task, numbered from 0. Usable by several threads."""

    def __init__(self, sources: Sequence[SourceFile], begin: int, size: int) -> None:
        self._entries = entries_from(sources, begin)
        self._size = size
        self._lock = threading.Lock()
        self._read: dict[int, list[Entry]] = {}
        self._next = 0

    def entries(self, number: int) -> list[Entry]:
        """Empty behind the last. Raises DataError."""
        with self._lock:
            while self._next <= number:
                self._read[self._next] = list(islice(self._entries, self._size))
                self._next += 1
            return self._read[number]

    def forget(self, number: int) -> None:
        with self._lock:
            del self._read[number]


def entries_from(sources: Sequence[SourceFile], begin: int) -> Iterator[Entry]:
    """Yields the entries of all files, without the first `begin`. Raises DataError at damage."""
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
    """Entries and bytes of the files gone through, chunk by chunk.

    Raises DataError at damage, and for an entry that the target can't hold: now, not when all has been scored.
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


def count_all(
    sources: Sequence[SourceFile], target: PositionFormat, check: Callable[[], object], progress: OnProgress | None
) -> int:
    """Returns how many positions the files have. `check`: called now and then. Raises as `count_storable`."""
    size, counted = sum(source.size for source in sources), 0
    for positions, done in count_storable(sources, target):
        check()
        counted = positions
        if progress is not None:
            progress(done, size)
    return counted


def rescored(
    sources: Sequence[SourceFile], target: PositionFormat, scores: npt.NDArray[np.int16], *, drop: bool = False
) -> Iterator[bytes]:
    """The entries in the target's format as a conversion would write them, each with its score of `scores`; with `drop`
    without those that the engine gave none. Raises DataError."""
    writer = target.make_writer()
    scored = scores <= NO_SCORE
    chosen: Any = scored.view(np.uint8)
    kept = _native.ChosenWriter(writer, chosen) if drop else writer
    with_scores = _native.RescoringWriter(kept, np.where(scored, scores, np.int16(NO_SCORE)))
    for source in sources:
        for chunk in range(source.num_chunks):
            source.copy_to(chunk, with_scores)
            if parted_by_chunks(source.format, target) and target.chunk_header is None:
                writer.finish()
            yield writer.take()
        source.check_end()
    writer.finish()
    yield writer.take()


def places(sources: Sequence[SourceFile], numbers: Sequence[int]) -> Iterator[str]:
    """Names entries by their numbers, which ascend: file, line or position there, FEN. Raises DataError."""
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
    """Entries one at a time, so that the walk knows where it is."""
    while line := walk.lines(1):
        yield entry_of(line.decode().rstrip("\n"))
