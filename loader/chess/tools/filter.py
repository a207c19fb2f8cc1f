"""The work of `loader filter`, which writes the positions of files that pass filters.

Random filters draw by the number of the chunk. Chunk i of all files is filtered as chunk i of the training stream of
these files in its first epoch, so the same positions pass. The result depends only on files, settings and seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from loader import _native
from loader.chess.filters import FilterConfig, needs
from loader.chess.filters.native_settings import filter_settings
from loader.chess.positions.chunk import Chunk
from loader.chess.positions.format import PositionFormat, Target, refuse_games
from loader.chess.positions.input import (
    Changes,
    Piece,
    Source,
    Tick,
    estimate_bytes,
    ignore_progress,
    refuse_empty,
    whole_size,
)
from loader.chess.positions.units import UnitBlock
from loader.chess.tools.convert import write_units
from loader.errors import UsageError
from loader.files.pipes import OutputPipe
from loader.formats.parallel import map_in_order

# A filtered chunk: its number of entries, how many pass, their units in the target format, counts of what it changes.
_Passing = tuple[int, int, UnitBlock, Changes]


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
    tick: Tick = ignore_progress,
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
    passing = PassingUnits(sources, target.format, filters, seed, threads, tick, marks=marks)
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
    tick: Tick = ignore_progress
    marks: bool = False
    passed: FilterResult = field(default_factory=lambda: FilterResult(0, 0))

    def __iter__(self) -> Iterator[UnitBlock]:
        """Filters all chunks on several threads. Yields the passing units of each chunk, in order."""
        filter_ = _native.Filter(filter_settings(self.filters), self.seed)
        whole, before, chunks = whole_size(self.sources), 0, 0

        def one(work: tuple[int, Piece]) -> _Passing:
            number, (file, place) = work
            return _passing(filter_, Chunk(file, place, self.target, marks=self.marks), number)

        for source in self.sources:
            work = enumerate(source.chunks(), chunks)
            behind = 0
            for behind, (entries, kept, block, changes) in enumerate(map_in_order(one, work, self.threads), 1):
                source.changes.update(changes)
                yield block
                self.passed = FilterResult(self.passed.read + entries, self.passed.kept + kept)
                self.tick(before + source.offset(behind), whole)
            source.check_end()
            before, chunks = before + source.offset(behind), chunks + behind


def refuse_lacking(sources: Sequence[Source], filters: FilterConfig) -> None:
    """Refuses filters that need a part of a position (a move, a ply) that the format of a source does not store. Raises
    UsageError."""
    for source in sources:
        for need in needs(filters):
            if need.part in source.format.lacks:
                option, _, rule = need.key.partition(".")
                option = option.replace("_", "-")
                raise UsageError(
                    f"--{option}: {f'{rule} needs the {need.part}' if rule else need}, which {source.format.name} does "
                    f"not have ({source.path}); leave that out, or filter before it is converted"
                )


def _passing(filter_: _native.Filter, chunk: Chunk, number: int) -> _Passing:
    """Filters chunk `number`. Returns the number of its entries, how many pass, the units to write, and counts of what
    the target format changes."""
    chosen = filter_.choose(chunk.records(), number)
    return len(chosen), int(np.count_nonzero(chosen)), chunk.take(chosen), chunk.changes
