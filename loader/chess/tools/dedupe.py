"""The work of `loader dedupe`, which writes each position once, the first in the order of the input, within a limit of
memory.

Positions that repeat an earlier one are found first (`repetitions.py`). Then the input is read again and written
without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

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

_FEWEST = 1 << 16  # keys that memory must hold at least
_CHUNK = 2 << 20  # bytes of memory for a chunk of a file, decoded and encoded
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
    largest, expected = _key_bytes(sources)
    limits = divide_memory(memory, threads, largest)
    on_disk = expected if expected > limits.rows * ROW else 0
    check_output(output, estimate_bytes(sources, target.format) + on_disk)
    begins = [sum(source.size for source in sources[:file]) for file in range(len(sources) + 1)]

    def report(half: int, file: int, chunk: int) -> None:
        on_progress(half * begins[-1] + begins[file] + sources[file].offset(chunk), 2 * begins[-1])

    with Output(output, target) as out, Repetitions(output.parent) as repetitions:
        repetitions.find(sources, limits, partial(report, 0))
        for block, file, chunk in _without(sources, target.format, repetitions, limits.threads):
            out.write(block)
            report(1, file, chunk)
        out.publish()
        return DedupeResult(repetitions.positions, out.entries)


def divide_memory(memory: int, threads: int, chunk: int) -> Limits:
    """Divides the memory between threads and sorting keys. `chunk` is the size in bytes of the keys of one chunk.
    Raises UsageError if the memory is too little."""
    left = memory - anonymous_memory()
    ahead = 2 * chunk + _CHUNK  # bytes for a chunk that is read ahead: the array of its keys grows by doubling
    threads = max(1, min(threads, left // (6 * ahead)))
    rows = (left - (2 * threads + 1) * ahead) // (_COPIES * ROW)
    if rows < _FEWEST:
        enough = max(SMALLEST_MEMORY, memory + (_FEWEST - rows) * _COPIES * ROW)
        raise UsageError(f"--memory: {memory >> 20} MiB is too little; give {(enough >> 20) + 8} MiB or more")
    return Limits(rows, threads)


def _key_bytes(sources: Sequence[SourceFile]) -> tuple[int, int]:
    """Estimates the size of the sorting keys from the first chunk of each file. Returns the bytes of one chunk's keys,
    the largest found, and the bytes of all keys."""
    largest, total = 0, 0.0
    for source in sources:
        if source.num_chunks:
            keys = read_keys(source, 0).nbytes
            largest = max(largest, keys)
            total += keys * source.size / max(source.offset(1), 1)
    return largest, int(total)


class _Stays:
    """Tells which positions repeat no earlier one, for consecutive runs of positions in the order of the input."""

    def __init__(self, repetitions: Repetitions) -> None:
        self._windows = repetitions.windows()
        self._stays: Chosen = np.empty(0, np.uint8)  # flags of the next positions, which `next` has not returned yet

    def next(self, count: int) -> Chosen:
        """Returns a byte for each of the next `count` positions: 1 if the position stays, 0 if it repeats an earlier
        one."""
        parts = []
        while count:
            if not len(self._stays):
                self._stays = next(self._windows)
                continue
            part, self._stays = self._stays[:count], self._stays[count:]
            parts.append(part)
            count -= len(part)
        return np.concatenate(parts) if parts else np.empty(0, np.uint8)


def _without(
    sources: Sequence[SourceFile], target: PositionFormat, repetitions: Repetitions, threads: int
) -> Iterator[tuple[UnitBlock, int, int]]:
    """Yields the units of each chunk without repeated positions, the number of the chunk's file, and the number of the
    chunk that follows."""
    stays = _Stays(repetitions)
    chunks = [(file, chunk) for file, source in enumerate(sources) for chunk in range(source.num_chunks)]

    def read(work: tuple[tuple[int, int], Chosen]) -> tuple[UnitBlock, Changes]:
        (file, number), chosen = work
        chunk = Chunk(sources[file], number, target)
        return chunk.take(chosen), chunk.changes

    work = zip(chunks, map(stays.next, repetitions.counts), strict=True)
    for (file, chunk), (block, changes) in zip(chunks, map_in_order(read, work, threads), strict=True):
        sources[file].changes.update(changes)
        yield block, file, chunk + 1
