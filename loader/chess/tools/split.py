"""`loader split`: a file in two, so that no game is in both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from loader.chess.positions.format import Target
from loader.chess.positions.input import SourceFile, Tick, expected_bytes, refuse_empty, silent, units_from
from loader.chess.positions.output import check_free
from loader.chess.positions.resumed_output import Place, ResumedOutput, publish, work_settings
from loader.chess.positions.units import FIRST, UnitBlock, begins_of_games
from loader.chess.tools.random_keys import Draws
from loader.files.work_file import is_begun

PARTS = ("train", "validation")


@dataclass(frozen=True)
class Part:
    """A file that was written."""

    path: Path
    units: int
    entries: int


def part_paths(path: Path, folder: Path | None) -> tuple[Path, Path]:
    """NAME.train.ENDING and NAME.validation.ENDING, in the file's folder or another."""
    stem, dot, endings = path.name.partition(".")
    train, validation = ((folder or path.parent) / f"{stem}.{part}{dot}{endings}" for part in PARTS)
    return train, validation


def split(
    source: SourceFile,
    target: Target,
    paths: tuple[Path, Path],
    share: float,
    seed: int,
    threads: int = 1,
    tick: Tick = silent,
) -> Sequence[Part]:
    """Each game goes into the second file with probability `share`, by the draw of its first unit: `games.py` says what
    is taken for a game. What is written is kept where the work is interrupted, and the same call goes on with it.

    Raises DataError, OSError, UsageError.
    """
    refuse_empty([source])
    settings = {**work_settings("split", [source], target), "--validation": share, "--seed": seed}

    def needed() -> int:
        for path in paths:
            check_free(path, 0)
        return expected_bytes([source], target.format)  # of both: the disk may be one

    def opened(path: Path) -> ResumedOutput:
        return ResumedOutput(path, target, settings, _Reader.START, needed, [source])

    with ExitStack() as stack:
        second = stack.enter_context(opened(paths[1]))
        if second.done and not is_begun(paths[0]):  # all but the last step of `publish`
            publish(second)
            _, units, entries, *_ = second.place
            return [
                Part(paths[0], units - second.units, entries - second.entries),
                Part(paths[1], second.units, second.entries),
            ]
        first = stack.enter_context(opened(paths[0]))
        outputs = (first, second)
        begin = min(first.place, second.place)
        for block, chosen, at, behind in _Reader(source, target, share, seed, begin).blocks(threads):
            for out, of_it in zip(outputs, (~chosen, chosen), strict=True):
                if at >= out.place:
                    out.write(block.take(np.flatnonzero(of_it)), behind)
            tick(source.offset(behind[0]), source.size)
        publish(*outputs)
        return [Part(path, out.units, out.entries) for path, out in zip(paths, outputs, strict=True)]


class _Reader:
    """Reads the file from a place on: chunk, units and entries before it; last ply and result of the unit before, and
    whether its game is in the second file."""

    START: Place = (0, 0, 0, *FIRST, False)

    def __init__(self, source: SourceFile, target: Target, share: float, seed: int, begin: Place) -> None:
        self._source = source
        self._target = target
        self._limit = np.uint64(min(int(share * 2.0**64), 2**64 - 1))
        self._draws = Draws(seed, begin[1])
        self._place = begin

    def blocks(self, threads: int) -> Iterator[tuple[UnitBlock, npt.NDArray[np.bool_], Place, Place]]:
        """Units, which of them the second file gets, the place of the first one and that behind the last one."""
        for block, following in units_from(self._source, self._target.format, threads, self._place[0]):
            at = self._place
            chosen = self._choose(block, at, following)
            yield block, chosen, at, self._place
        self._source.check_end()

    def _choose(self, block: UnitBlock, at: Place, following: int) -> npt.NDArray[np.bool_]:
        _, units, entries, last_ply, result, second = at
        new, before = begins_of_games(self._target.format, block, (last_ply, result))
        drawn = np.concatenate([[second], self._draws.next(len(block)) < self._limit])
        game = np.maximum.accumulate(np.where(new, np.arange(1, len(block) + 1), 0))  # its first unit; 0: before
        chosen = drawn[game]
        second = bool(chosen[-1]) if len(block) else second
        self._place = (following, units + len(block), entries + int(block.entries.sum()), *before, second)
        return chosen
