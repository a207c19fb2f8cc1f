"""What a binpack file holds, in numbers: the statistics that `loader inspect` shows.

Everything follows from exact counts that the native census makes, so nothing here is sampled.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from loader._native import BinpackFile, Census
from loader.binpack import Progress, damage_error

NO_SCORE = 32002  # placeholder of entries that are kept only so as not to break their chain
SCORE_ZERO = 32768  # index of score 0 in the census


@dataclass(frozen=True)
class Distribution:
    """Of whole numbers. All zero if there are none."""

    min: int
    max: int
    mean: float
    std: float
    p5: int
    median: int
    p95: int

    @classmethod
    def of_counts(cls, counts: npt.NDArray[np.uint64], zero: int = 0) -> Distribution:
        """counts[i] is how often i - zero occurs."""
        total = int(counts.sum())
        if total == 0:
            return cls(0, 0, 0.0, 0.0, 0, 0, 0)
        values = np.arange(len(counts)) - zero
        present = values[counts > 0]
        mean = float(values @ counts) / total
        variance = float(np.square(values - mean) @ counts) / total
        below = np.cumsum(counts)
        p5, median, p95 = (int(values[np.searchsorted(below, total * q)]) for q in (0.05, 0.5, 0.95))
        return cls(int(present[0]), int(present[-1]), round(mean, 3), round(variance**0.5, 3), p5, median, p95)


@dataclass(frozen=True)
class Statistics:
    """Of one file. Scores and results are from the side to move's point of view."""

    file: str
    bytes: int
    chunks: int
    entries: int
    chains: int
    bytes_per_entry: float
    entries_per_chain: float
    score: Distribution  # of the entries that have one
    no_score: int  # entries with the placeholder
    ply: Distribution
    results: dict[str, int]
    piece_count: Distribution
    piece_counts: tuple[int, ...]  # entries by number of pieces, 0 to 32
    moves: dict[str, int]
    captures: int  # moves onto an enemy piece (not en passant)
    in_check: int
    white_to_move: int


def inspect(path: Path | str, progress: Progress | None = None) -> Statistics:
    """Reads every entry of a file. Raises DataError at damage."""
    file = BinpackFile(path)
    census = Census()
    for chunk in range(file.num_chunks):
        damage = census.add_chunk(file, chunk)
        if damage is not None:
            raise damage_error(path, damage, in_chunk=True)
        if progress is not None:
            progress(sum(file.chunk(chunk)), file.size)
    if file.header_damage is not None:
        raise damage_error(path, file.header_damage, in_chunk=False)
    scores = census.scores.copy()
    no_score = int(scores[NO_SCORE + SCORE_ZERO])
    scores[NO_SCORE + SCORE_ZERO] = 0
    return Statistics(
        file=str(path),
        bytes=file.size,
        chunks=file.num_chunks,
        entries=census.entries,
        chains=census.chains,
        bytes_per_entry=round(file.size / max(census.entries, 1), 4),
        entries_per_chain=round(census.entries / max(census.chains, 1), 2),
        score=Distribution.of_counts(scores, SCORE_ZERO),
        no_score=no_score,
        ply=Distribution.of_counts(census.plies),
        results=dict(zip(("loss", "draw", "win"), census.results.tolist(), strict=True)),
        piece_count=Distribution.of_counts(census.piece_counts),
        piece_counts=tuple(census.piece_counts.tolist()),
        moves=dict(zip(("normal", "promotion", "castling", "en_passant"), census.move_types.tolist(), strict=True)),
        captures=census.captures,
        in_check=census.in_check,
        white_to_move=census.white_to_move,
    )
