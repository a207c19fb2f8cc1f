"""`loader interleave`: files mixed in a ratio of positions, each in its own order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from pathlib import Path

import numpy as np

from loader.chess.files.units import Numbers, UnitBlock, joined
from loader.chess.tools.kind import Kind, Target
from loader.chess.tools.output import Output, check_free
from loader.chess.tools.source import SourceFile, Tick, expected_bytes, refuse_empty, silent, units_of


@dataclass
class _Lane:
    """A file, and what of it has been read and not been written."""

    source: SourceFile
    blocks: Iterator[tuple[UnitBlock, int]]
    pace: int  # a position takes so much time
    held: UnitBlock = field(default_factory=lambda: joined([]))
    time: int = 0  # of what has been written
    positions: int = 0
    done: int = 0  # bytes of the file
    ended: bool = False

    def fill(self) -> None:
        while not self.ended and not len(self.held):
            found = next(self.blocks, None)
            if found is None:
                self.ended = True
            else:
                self.held, self.done = found

    def times(self) -> Numbers:
        """When each unit that is held is over."""
        entries = np.cumsum(self.held.entries, dtype=np.uint64)
        return np.uint64(self.time) + entries * np.uint64(self.pace)

    def give(self, count: int) -> UnitBlock:
        """The first units."""
        given, self.held = self.held.part(0, count), self.held.part(count, len(self.held))
        positions = int(given.entries.sum())
        self.positions += positions
        self.time += positions * self.pace
        return given


@dataclass(frozen=True)
class Taken:
    """Of a file."""

    path: Path
    positions: int
    whole: bool  # all of it


def interleave(
    sources: Sequence[SourceFile],
    shares: Sequence[Fraction],
    target: Target,
    output: Path,
    threads: int = 1,
    tick: Tick = silent,
) -> Sequence[Taken]:
    """Writes units so that at any place the positions of the files are in the ratio of `shares`, to within a unit.

    Ends with the first file that does. The order within a file is kept; nothing is drawn. Raises DataError.
    """
    refuse_empty(sources)
    check_free(output, expected_bytes(sources, target.kind))
    lanes = _lanes(sources, shares, target.kind, threads)
    whole = sum(source.size for source in sources)
    with Output(output, target) as out:
        while _fill(lanes):
            out.write(_mixed(lanes))
            tick(sum(lane.done for lane in lanes), whole)
        out.publish()
    return [Taken(lane.source.path, lane.positions, lane.ended and not len(lane.held)) for lane in lanes]


def _lanes(sources: Sequence[SourceFile], shares: Sequence[Fraction], target: Kind, threads: int) -> list[_Lane]:
    common = lcm(*(share.numerator for share in shares))
    return [
        _Lane(source, iter(units_of(source, target, threads)), int(common * share.denominator / share.numerator))
        for source, share in zip(sources, shares, strict=True)
    ]


def _fill(lanes: Sequence[_Lane]) -> bool:
    """Whether every file has units left."""
    for lane in lanes:
        lane.fill()
    return all(len(lane.held) for lane in lanes)


def _mixed(lanes: Sequence[_Lane]) -> UnitBlock:
    """What comes before the first end of what is held: by time, and of the same time by the order of the files."""
    times = [lane.times() for lane in lanes]
    horizon = min(int(each[-1]) for each in times)
    counts = [int(np.searchsorted(each, np.uint64(horizon), side="right")) for each in times]
    given = joined([lane.give(count) for lane, count in zip(lanes, counts, strict=True)])
    order = np.argsort(np.concatenate([each[:count] for each, count in zip(times, counts, strict=True)]), kind="stable")
    return given.take(order)
