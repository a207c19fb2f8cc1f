"""The positions of some files, in tasks for engines, and their entries with other scores."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.chess.entry import Entry
from loader.chess.tools.kind import Kind
from loader.chess.tools.source import SourceFile, parted_by_chunks

NO_SCORE = 32002  # the placeholder of positions that are not to be used
Scores = npt.NDArray[np.int16]  # of the side to move


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
    """Of all files, without the first `begin`. Raises DataError at damage."""
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


def count_storable(sources: Sequence[SourceFile], target: Kind) -> Iterator[tuple[int, int]]:
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


def rescored(sources: Sequence[SourceFile], target: Kind, scores: Scores) -> Iterator[bytes]:
    """The entries in the target's format as a conversion would write them, each with its score of `scores`. Raises
    DataError."""
    writer = target.make_writer()
    with_scores = _native.RescoringWriter(writer, scores)
    for source in sources:
        for chunk in range(source.num_chunks):
            source.copy_to(chunk, with_scores)
            if parted_by_chunks(source.kind, target) and not target.is_binpack:
                writer.finish()
            yield writer.take()
        source.check_end()
    writer.finish()
    yield writer.take()
