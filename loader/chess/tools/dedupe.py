"""The work of `loader dedupe`, which writes each position once, the first in the order of the input, within a limit of
memory.

Positions that repeat an earlier one are found first (`repetitions.py`). Then the input is read again and written
without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np

from loader.chess.positions.chunk import Chosen, Chunk
from loader.chess.positions.format import PositionFormat, Target, refuse_games
from loader.chess.positions.input import (
    Changes,
    SourceFile,
    estimate_bytes,
    ignore_progress,
    refuse_empty,
)
from loader.chess.positions.output import Output, check_output
from loader.chess.positions.units import UnitBlock
from loader.chess.tools.external_sort.memory import SMALLEST_MEMORY, anonymous_memory
from loader.chess.tools.repetitions import ROW, Limits, Repetitions, read_keys
from loader.errors import UsageError
from loader.formats.format import OnProgress
from loader.formats.parallel import map_in_order

_MIN_KEYS = 1 << 16  # keys that memory must hold at least
_CHUNK_NBYTES = 2 << 20  # bytes of memory for a chunk of a file, decoded and encoded
_COPIES = 4  # copies of the keys in memory, while they are sorted or compared


@dataclass(frozen=True)
class DedupeResult:
    """The numbers of positions that were read and that were kept."""

    read: int
    kept: int

    def __str__(self) -> str:
        share = self.kept / max(self.read, 1)
        return f"{self.kept:,} of {self.read:,} positions kept ({share:.1%}); the others repeat one of them"


def dedupe(
    sources: Sequence[SourceFile],
    target: Target,
    output: Path,
    memory: int,
    threads: int = 1,
    on_progress: OnProgress = ignore_progress,
) -> DedupeResult:
    """Writes the positions that repeat no earlier one, within `memory` bytes.

    Raises DataError, OSError, UsageError.
    """
    refuse_games(target.format)
    refuse_empty(sources)
    keys = _estimate_keys(sources)
    limits = divide_memory(memory, threads, keys.chunk_nbytes)
    nbytes_on_disk = keys.total_nbytes if keys.total_nbytes > limits.rows * ROW else 0
    check_output(output, estimate_bytes(sources, target.format) + nbytes_on_disk)
    *begins, num_bytes = accumulate((source.size for source in sources), initial=0)

    def report(done_passes: int, file: int, chunk: int) -> None:
        done = done_passes * num_bytes + begins[file] + sources[file].offset(chunk)
        on_progress(done, 2 * num_bytes)

    with Output(output, target) as out, Repetitions(output.parent) as repetitions:
        repetitions.find(sources, limits, partial(report, 0))
        for block, file, next_chunk in _read_without_repetitions(sources, target.format, repetitions, limits.threads):
            out.write(block)
            report(1, file, next_chunk)
        out.publish()
        return DedupeResult(repetitions.positions, out.entries)


def divide_memory(memory: int, threads: int, keys_nbytes: int) -> Limits:
    """Divides the memory between threads and sorting keys. `keys_nbytes` is the size of the keys of one chunk. Raises
    UsageError if the memory is too little."""
    free = memory - anonymous_memory()
    # Bytes for a chunk that is read ahead. The array of its keys grows by doubling.
    prefetched_nbytes = 2 * keys_nbytes + _CHUNK_NBYTES
    threads = max(1, min(threads, free // (6 * prefetched_nbytes)))
    rows = (free - (2 * threads + 1) * prefetched_nbytes) // (_COPIES * ROW)
    if rows < _MIN_KEYS:
        enough = max(SMALLEST_MEMORY, memory + (_MIN_KEYS - rows) * _COPIES * ROW)
        raise UsageError(f"--memory: {memory >> 20} MiB is too little; give {(enough >> 20) + 8} MiB or more")
    return Limits(rows, threads)


class _KeySizes(NamedTuple):
    chunk_nbytes: int  # of the keys of one chunk, the largest of those measured
    total_nbytes: int  # of all keys


def _estimate_keys(sources: Sequence[SourceFile]) -> _KeySizes:
    """Estimates the size of the sorting keys from the first chunk of each file."""
    largest, total = 0, 0.0
    for source in sources:
        if source.num_chunks:
            nbytes = read_keys(source, 0).nbytes
            largest = max(largest, nbytes)
            total += nbytes * source.size / max(source.offset(1), 1)
    return _KeySizes(largest, int(total))


class _FirstOccurrences:
    """Finds which positions repeat no earlier one, for consecutive runs of positions in the order of the input."""

    def __init__(self, repetitions: Repetitions) -> None:
        self._windows = repetitions.windows()
        self._flags: Chosen = np.empty(0, np.uint8)  # of the next positions, which `next` has not returned yet

    def next(self, count: int) -> Chosen:
        """Returns a byte for each of the next `count` positions: 1 if the position repeats no earlier one, 0 if it
        does."""
        parts = [np.empty(0, np.uint8)]
        missing = count
        while missing:
            if not len(self._flags):
                self._flags = next(self._windows)
                continue
            part, self._flags = self._flags[:missing], self._flags[missing:]
            parts.append(part)
            missing -= len(part)
        return np.concatenate(parts)


def _read_without_repetitions(
    sources: Sequence[SourceFile], target: PositionFormat, repetitions: Repetitions, threads: int
) -> Iterator[tuple[UnitBlock, int, int]]:
    """Yields the units of each chunk without repeated positions, the number of the chunk's file, and the number of the
    chunk that follows."""
    first_occurrences = _FirstOccurrences(repetitions)
    chunks = [(file, chunk) for file, source in enumerate(sources) for chunk in range(source.num_chunks)]

    def read_chunk(task: tuple[tuple[int, int], Chosen]) -> tuple[UnitBlock, Changes]:
        (file, number), is_first = task
        chunk = Chunk(sources[file], number, target)
        return chunk.take(is_first), chunk.changes

    tasks = zip(chunks, map(first_occurrences.next, repetitions.counts), strict=True)
    for (file, number), (block, changes) in zip(chunks, map_in_order(read_chunk, tasks, threads), strict=True):
        sources[file].changes.update(changes)
        yield block, file, number + 1
