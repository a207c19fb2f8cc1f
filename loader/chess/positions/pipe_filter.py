"""Positions that pass filters, read once and in order: what needs no file, at either end.

Chunk number i of all inputs is filtered as `loader.chess.tools.filter` does it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from loader import _native
from loader.chess.filters import FilterConfig
from loader.chess.filters.native_settings import filter_settings
from loader.chess.positions.chunk import Chunk
from loader.chess.positions.input import Changes, Piece, Source, Tick, silent, whole_size
from loader.chess.positions.kind import Kind
from loader.chess.positions.units import UnitBlock
from loader.chess.tools.filter import Passed
from loader.formats.parallel import map_in_order


@dataclass
class PassingUnits:
    """Iterated once; `passed`: so far. Raises DataError at damage and for an entry that the target can't hold."""

    sources: Sequence[Source]
    target: Kind
    filters: FilterConfig
    seed: int
    threads: int = 1
    tick: Tick = silent
    passed: Passed = field(default_factory=lambda: Passed(0, 0))

    def __iter__(self) -> Iterator[UnitBlock]:
        filter_ = _native.Filter(filter_settings(self.filters), self.seed)
        whole, before, chunks = whole_size(self.sources), 0, 0

        def one(work: tuple[int, Piece]) -> tuple[int, UnitBlock, Changes]:
            number, (file, place) = work
            chunk = Chunk(file, place, self.target)
            chosen = filter_.choose(chunk.records(), number)
            return len(chosen), chunk.take(chosen), chunk.changes

        for source in self.sources:
            work = enumerate(source.chunks(), chunks)
            behind = 0
            for behind, (entries, block, changes) in enumerate(map_in_order(one, work, self.threads), 1):
                source.changes.update(changes)
                yield block
                self.passed = Passed(self.passed.read + entries, self.passed.kept + int(block.entries.sum()))
                self.tick(before + source.offset(behind), whole)
            source.check_end()
            before, chunks = before + source.offset(behind), chunks + behind
