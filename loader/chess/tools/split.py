"""The work of `loader split`, which divides a file into a training and a validation file, so that no game is in
both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from loader.chess.positions.format import Target
from loader.chess.positions.input import (
    SourceFile,
    estimate_bytes,
    ignore_progress,
    read_units_from,
    refuse_empty,
)
from loader.chess.positions.output import Output, check_output
from loader.chess.positions.units import START_OF_FILE, UnitBlock, find_game_starts
from loader.chess.tools.random_keys import RandomKeys
from loader.formats.format import OnProgress

PARTS = ("train", "validation")


@dataclass(frozen=True)
class SplitFile:
    """One of the two files that were written, with the numbers of its units and entries."""

    path: Path
    units: int
    entries: int


def split_paths(path: Path, folder: Path | None) -> tuple[Path, Path]:
    """Returns the paths of the two files, NAME.train.ENDING and NAME.validation.ENDING, in `folder` or else in the
    folder of the file."""
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
    on_progress: OnProgress = ignore_progress,
) -> Sequence[SplitFile]:
    """Writes each game to the second file with probability `share`, else to the first. The random number of a game is
    that of its first unit.

    `find_game_starts` decides which units form a game. Raises DataError, OSError,
    UsageError.
    """
    refuse_empty([source])
    expected = estimate_bytes([source], target.format)  # of both files together, which may be on one disk
    for path in paths:
        check_output(path, expected)
    with Output(paths[0], target) as first, Output(paths[1], target) as second:
        for block, is_second, next_chunk in _draw_games(source, target, share, seed, threads):
            first.write(block.take(np.flatnonzero(~is_second)))
            second.write(block.take(np.flatnonzero(is_second)))
            on_progress(source.offset(next_chunk), source.size)
        outputs = (first, second)
        for out in outputs:
            out.finish()
        for out in outputs:
            out.publish_finished()
    return [SplitFile(path, out.units, out.entries) for path, out in zip(paths, outputs, strict=True)]


def _draw_games(
    source: SourceFile, target: Target, share: float, seed: int, threads: int
) -> Iterator[tuple[UnitBlock, npt.NDArray[np.bool_], int]]:
    """Yields blocks of units, each with a boolean for every unit that is True if the second file gets it, and the
    number of the chunk that follows."""
    limit = np.uint64(min(int(share * 2.0**64), 2**64 - 1))
    random_keys = RandomKeys(seed)
    last_unit, last_is_second = START_OF_FILE, False  # of the unit before a block
    for block, next_chunk in read_units_from(source, target.format, threads):
        is_start, last_unit = find_game_starts(target.format, block, last_unit)
        drawn = np.concatenate([[last_is_second], random_keys.next(len(block)) < limit])
        # For each unit the first unit of its game, counted from 1; 0: the game began in an earlier block.
        first_of_game = np.maximum.accumulate(np.where(is_start, np.arange(1, len(block) + 1), 0))
        is_second = drawn[first_of_game]
        if len(block):
            last_is_second = bool(is_second[-1])
        yield block, is_second, next_chunk
    source.check_end()
