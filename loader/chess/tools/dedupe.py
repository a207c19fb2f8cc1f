"""`loader dedupe`: each position once, the first in the order of the input, within a limit of memory.

Which positions repeat an earlier one is found first (`repetitions.py`), in OUT.keys.part; then the input is read again
and written without them.
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
    Tick,
    expected_bytes,
    has_chunks_from,
    refuse_empty,
    silent,
)
from loader.chess.positions.resumed_output import Place, ResumedOutput, kept_work, work_settings
from loader.chess.positions.units import UnitBlock
from loader.chess.tools.external_sort.memory import SMALLEST_MEMORY, anonymous_memory
from loader.chess.tools.repetitions import ROW, START, Limits, Repetitions, keys_of
from loader.errors import UsageError
from loader.files.work_file import WorkFile, bytes_begun
from loader.formats.parallel import map_in_order

_FEWEST = 1 << 16  # keys that are worth a batch
_CHUNK = 2 << 20  # bytes of a chunk of a file, and of what is made of it
_COPIES = 4  # of keys that are held, while they are sorted or compared


@dataclass(frozen=True)
class Deduped:
    """How many positions."""

    read: int
    kept: int

    def __str__(self) -> str:
        share = self.kept / max(self.read, 1)
        return f"{self.kept:,} of {self.read:,} positions kept ({share:.1%}); the others repeat one of them"


def dedupe(
    sources: Sequence[SourceFile], target: Target, output: Path, memory: int, threads: int = 1, tick: Tick = silent
) -> Deduped:
    """Writes the positions that repeat no earlier one. Work that is interrupted is kept, and the same call goes on with
    it.

    Raises DataError, OSError, UsageError.
    """
    refuse_games(target.format)
    refuse_empty(sources)
    largest, expected = _key_bytes(sources)
    limits = limits_of(memory, threads, largest)
    keys_path = output.with_name(f"{output.name}.keys")
    on_disk = max(expected - bytes_begun(keys_path), 0) if expected > limits.rows * ROW else 0
    settings = work_settings("dedupe", sources, target)
    begins = [sum(source.size for source in sources[:file]) for file in range(len(sources) + 1)]

    def tell(half: int, file: int, chunk: int) -> None:
        tick(half * begins[-1] + begins[file] + sources[file].offset(chunk), 2 * begins[-1])

    with (
        ResumedOutput(
            output, target, settings, (0, 0, 0), lambda: expected_bytes(sources, target.format) + on_disk, sources
        ) as out,
        WorkFile(keys_path, settings, START) as keys,
        kept_work(keys),
    ):
        if not out.done and has_chunks_from(sources, *out.place[:2]):
            repetitions = Repetitions(keys)
            repetitions.find(sources, limits, partial(tell, 0))
            for block, behind in _without(sources, target.format, repetitions, out.place, limits.threads):
                out.write(block, behind)
                tell(1, *behind[:2])
        out.finish()
        keys.remove()  # while OUT has no name: with it and without its own work, the command would be refused
        out.publish()
        return Deduped(out.place[2], out.entries)


def limits_of(memory: int, threads: int, chunk: int) -> Limits:
    """`chunk`: bytes of the keys of one. Raises UsageError if the memory is too little."""
    left = memory - anonymous_memory()
    ahead = 2 * chunk + _CHUNK  # for one that is read ahead: keys grow by doubling
    threads = max(1, min(threads, left // (6 * ahead)))
    rows = (left - (2 * threads + 1) * ahead) // (_COPIES * ROW)
    if rows < _FEWEST:
        enough = max(SMALLEST_MEMORY, memory + (_FEWEST - rows) * _COPIES * ROW)
        raise UsageError(f"--memory: {memory >> 20} MiB is too little; give {(enough >> 20) + 8} MiB or more")
    return Limits(rows, threads)


def _key_bytes(sources: Sequence[SourceFile]) -> tuple[int, int]:
    """Estimates the bytes of the keys of a chunk, and of all chunks, from the first chunk of each file."""
    largest, total = 0, 0.0
    for source in sources:
        if source.num_chunks:
            keys = keys_of(source, 0).nbytes
            largest = max(largest, keys)
            total += keys * source.size / max(source.offset(1), 1)
    return largest, int(total)


class _Chosen:
    """The positions that stay, asked for in the order of the input, from number `first` on."""

    def __init__(self, repetitions: Repetitions, first: int) -> None:
        self._windows = repetitions.windows(first)
        self._begin = self._at = first  # of the window; of what is asked for next
        self._stays: Chosen = np.empty(0, np.uint8)

    def next(self, count: int) -> Chosen:
        parts = []
        while count:
            if self._at == self._begin + len(self._stays):
                self._begin, self._stays = next(self._windows)
                continue
            part = self._stays[self._at - self._begin :][:count]
            parts.append(part)
            self._at, count = self._at + len(part), count - len(part)
        return np.concatenate(parts) if parts else np.empty(0, np.uint8)


def _without(
    sources: Sequence[SourceFile], target: PositionFormat, repetitions: Repetitions, begin: Place, threads: int
) -> Iterator[tuple[UnitBlock, Place]]:
    """Yields the units that stay of each chunk from `begin` on, and the place behind it: file, chunk, positions before
    that."""
    file, chunk, number = begin
    counts = repetitions.counts()
    chosen = _Chosen(repetitions, number)
    chunks = [(i, each) for i, source in enumerate(sources) for each in range(source.num_chunks)]
    first = sum(source.num_chunks for source in sources[:file]) + chunk

    def take(work: tuple[int, Chosen]) -> tuple[UnitBlock, Changes]:
        file, number = chunks[work[0]]
        chunk = Chunk(sources[file], number, target)
        return chunk.take(work[1]), chunk.changes

    work = ((each, chosen.next(int(counts[each]))) for each in range(first, len(chunks)))
    for each, (block, changes) in enumerate(map_in_order(take, work, threads), first):
        file, chunk = chunks[each]
        sources[file].changes.update(changes)
        number += int(counts[each])
        yield block, (file, chunk + 1, number)
