"""`loader interleave`: files mixed in a ratio of positions, each in its own order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loader.chess.positions.format import PositionFormat, Target
from loader.chess.positions.input import SourceFile, Tick, expected_bytes, refuse_any_empty, silent, units_from
from loader.chess.positions.resumed_output import Place, ResumedOutput, work_settings
from loader.chess.positions.units import UnitBlock, joined

_LARGEST = (1 << 64) - 1


class _Lane:
    """A file, and what of it has been read and not been written.

    `place`: chunk, units of it that are written, their time, and positions. A position takes `pace` of time.
    """

    def __init__(
        self, source: SourceFile, target: PositionFormat, pace: int, threads: int, place: Sequence[int]
    ) -> None:
        self.source = source
        self.ended = False
        self._pace = pace
        self._held = joined([])
        self._chunk, self._given, self._time, self.positions = place
        self._behind = self._chunk  # of what is held
        self._skipped = self._given  # of what is read next
        self._blocks = units_from(source, target, threads, self._chunk)

    @property
    def place(self) -> list[int]:
        chunk, given = (self._chunk, self._given) if len(self._held) else (self._behind, self._skipped)
        return [chunk, given, self._time, self.positions]

    @property
    def done(self) -> int:
        """Bytes of the file."""
        return self.source.offset(self._behind)

    @property
    def has_units(self) -> bool:
        return len(self._held) > 0

    def fill(self) -> None:
        while not self.ended and not self.has_units:
            found = next(self._blocks, None)
            if found is None:
                self.source.check_end()
                self.ended = True
                return
            self._chunk, self._given = self._behind, self._skipped
            self._skipped = 0
            block, self._behind = found
            self._held = block.part(self._given, len(block))

    @property
    def time(self) -> int:
        """When the next unit begins."""
        return self._time

    def times(self, since: int) -> npt.NDArray[Any]:
        """When each unit that is held is over, counted from `since`. Exact: as Python's integers if 64 bits are too
        few."""
        entries = np.cumsum(self._held.entries, dtype=np.uint64)
        begin = self._time - since
        if begin + max(int(entries[-1]), 1) * self._pace > _LARGEST:
            entries = entries.astype(object)
        return entries * self._pace + begin

    def give(self, count: int) -> UnitBlock:
        """The first units."""
        given, self._held = self._held.part(0, count), self._held.part(count, len(self._held))
        positions = int(given.entries.sum())
        self._given += count
        self.positions += positions
        self._time += positions * self._pace
        return given


@dataclass(frozen=True)
class Taken:
    """The units and entries that were taken of a file."""

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

    Ends with the first file that does. The order within a file is kept; nothing is drawn. What is written is kept where
    the work is interrupted, and the same call goes on with it. Raises DataError.
    """
    refuse_any_empty(sources)  # the first to end ends all
    whole = sum(source.size for source in sources)
    settings = {
        **work_settings("interleave", sources, target),
        "FILE=SHARE": ", ".join(f"{source.path.name}={share}" for source, share in zip(sources, shares, strict=True)),
    }
    start = tuple([0, 0, 0, 0] for _ in sources)
    with ResumedOutput(output, target, settings, start, lambda: expected_bytes(sources, target.format), sources) as out:
        lanes = _lanes(sources, shares, target.format, threads, out.place)
        while _fill(lanes):
            out.write(_mixed(lanes), tuple(lane.place for lane in lanes))
            tick(sum(lane.done for lane in lanes), whole)
        out.publish()
    return [Taken(lane.source.path, lane.positions, lane.ended) for lane in lanes]


def _lanes(
    sources: Sequence[SourceFile], shares: Sequence[Fraction], target: PositionFormat, threads: int, places: Place
) -> list[_Lane]:
    common = lcm(*(share.numerator for share in shares))
    paces = [common * share.denominator // share.numerator for share in shares]
    return [
        _Lane(source, target, pace, threads, place) for source, pace, place in zip(sources, paces, places, strict=True)
    ]


def _fill(lanes: Sequence[_Lane]) -> bool:
    """Reads on where nothing is held; tells whether every file has units left."""
    for lane in lanes:
        lane.fill()
    return all(lane.has_units for lane in lanes)


def _mixed(lanes: Sequence[_Lane]) -> UnitBlock:
    """Returns the units before the first end of what is held: by time, and of the same time by the order of the
    files."""
    since = min(lane.time for lane in lanes)
    times = [lane.times(since) for lane in lanes]
    horizon = min(int(each[-1]) for each in times)
    counts = [int(np.searchsorted(each, np.asarray(horizon, each.dtype), side="right")) for each in times]
    given = joined([lane.give(count) for lane, count in zip(lanes, counts, strict=True)])
    order = np.argsort(np.concatenate([each[:count] for each, count in zip(times, counts, strict=True)]), kind="stable")
    return given.take(order)
