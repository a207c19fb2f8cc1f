"""The work of `loader filter`, which writes the positions of files that pass filters.

Random filters draw by the number of the chunk. Chunk i of all files is filtered as chunk i of the training stream of
these files in its first epoch, so the same positions pass. The result depends only on files, settings and seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from loader import _native
from loader.chess.filters import FilterConfig, filter_needs
from loader.chess.filters.native_settings import filter_settings
from loader.chess.positions.chunk import Chunk
from loader.chess.positions.format import PositionFormat, Target, refuse_games
from loader.chess.positions.input import (
    Changes,
    Source,
    SourceChunk,
    estimate_bytes,
    ignore_progress,
    refuse_empty,
    total_size,
)
from loader.chess.positions.units import UnitBlock
from loader.chess.tools.convert import write_units
from loader.errors import UsageError
from loader.files.pipes import OutputPipe
from loader.formats.format import OnProgress
from loader.formats.parallel import map_in_order


class _FilteredChunk(NamedTuple):
    entries: int
    num_passing: int
    units: UnitBlock  # the passing entries in the target format
    changes: Changes  # counts of what the target format changes


@dataclass(frozen=True)
class FilterResult:
    """The numbers of positions that were read and that passed the filters."""

    read: int
    kept: int

    def __str__(self) -> str:
        return f"{self.kept:,} of {self.read:,} positions kept ({self.kept / max(self.read, 1):.1%})"


def filter_positions(
    sources: Sequence[Source],
    target: Target,
    output: Path | OutputPipe,
    filters: FilterConfig,
    seed: int,
    threads: int = 1,
    on_progress: OnProgress = ignore_progress,
    *,
    marks: bool = False,
) -> FilterResult:
    """Writes the positions that pass the filters, in the order of the input. Positions whose format stays the same keep
    their bytes.

    With `marks`, positions that do not pass are written, too, without their score. Raises UsageError for options that
    contradict a format, DataError at damage and for an entry that the target can't store, OSError.
    """
    if not marks:
        refuse_games(target.format)
    refuse_lacking(sources, filters)
    refuse_empty(sources)
    passing = PassingUnits(sources, target.format, filters, seed, threads, on_progress, marks=marks)
    write_units(passing, target, output, estimate_bytes(sources, target.format))
    return passing.passed


@dataclass
class PassingUnits:
    """An iterable of the units that pass the filters, in the target format. Can be iterated once. `passed` counts the
    positions so far. Raises DataError at damage and for an entry that the target can't store."""

    sources: Sequence[Source]
    target: PositionFormat
    filters: FilterConfig
    seed: int
    threads: int = 1
    on_progress: OnProgress = ignore_progress
    marks: bool = False
    passed: FilterResult = field(default_factory=lambda: FilterResult(0, 0))

    def __iter__(self) -> Iterator[UnitBlock]:
        """Filters all chunks on several threads. Yields the passing units of each chunk, in order."""
        native_filter = _native.Filter(filter_settings(self.filters), self.seed)
        num_bytes = total_size(self.sources)
        bytes_of_done_sources = chunks_of_done_sources = 0

        def filter_chunk(numbered: tuple[int, SourceChunk]) -> _FilteredChunk:
            chunk_number, (file, number_in_file) = numbered
            chunk = Chunk(file, number_in_file, self.target, marks=self.marks)
            return _filter_chunk(native_filter, chunk, chunk_number)

        for source in self.sources:
            numbered_chunks = enumerate(source.chunks(), chunks_of_done_sources)
            num_chunks = 0
            for filtered in map_in_order(filter_chunk, numbered_chunks, self.threads):
                num_chunks += 1
                source.changes.update(filtered.changes)
                yield filtered.units
                self.passed = FilterResult(self.passed.read + filtered.entries, self.passed.kept + filtered.num_passing)
                self.on_progress(bytes_of_done_sources + source.offset(num_chunks), num_bytes)
            source.check_end()
            bytes_of_done_sources += source.offset(num_chunks)
            chunks_of_done_sources += num_chunks


def refuse_lacking(sources: Sequence[Source], filters: FilterConfig) -> None:
    """Refuses filters that need a part of a position (a move, a ply) that the format of a source does not store. Raises
    UsageError."""
    for source in sources:
        for need in filter_needs(filters):
            if need.part in source.format.lacks:
                key, _, subkey = need.key.partition(".")
                option = key.replace("_", "-")
                description = f"{subkey} needs the {need.part}" if subkey else str(need)
                raise UsageError(
                    f"--{option}: {description}, which {source.format.name} does not have ({source.path}); leave that "
                    "out, or filter before it is converted"
                )


def _filter_chunk(native_filter: _native.Filter, chunk: Chunk, number: int) -> _FilteredChunk:
    """Filters chunk `number` of the stream."""
    passes = native_filter.choose(chunk.records(), number)
    return _FilteredChunk(len(passes), int(np.count_nonzero(passes)), chunk.take(passes), chunk.changes)
