"""`loader split`: a file in two, so that no game is in both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from loader.chess.tools.draws import Draws
from loader.chess.tools.kind import Target
from loader.chess.tools.output import Output, check_free
from loader.chess.tools.source import SourceFile, Tick, all_units, refuse_empty, silent

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
    """Each unit goes into the second file with probability `share`, by its draw of the seed. Raises DataError."""
    refuse_empty([source])
    for path, part in zip(paths, (1 - share, share), strict=True):
        check_free(path, int(source.size * part))
    draws, limit = Draws(seed), np.uint64(min(int(share * 2.0**64), 2**64 - 1))
    counts = [0, 0]
    with Output(paths[0], target) as train, Output(paths[1], target) as validation:
        for block in all_units([source], target.kind, threads, tick):
            second = draws.next(len(block)) < limit
            for side, out in enumerate((train, validation)):
                chosen = np.flatnonzero(second == bool(side))
                out.write(block.take(chosen))
                counts[side] += len(chosen)
        train.publish()
        validation.publish()
        written = (train.entries, validation.entries)
    return [Part(*each) for each in zip(paths, counts, written, strict=True)]
