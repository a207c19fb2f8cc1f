"""What positions there are, in numbers: the statistics that `loader inspect` shows.

Everything follows from exact counts that the native census makes, so nothing here is sampled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loader._native import Census

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

    def __str__(self) -> str:
        percentiles = f"5 % {self.p5:,}, median {self.median:,}, 95 % {self.p95:,}"
        return f"{self.min:,} to {self.max:,}, mean {self.mean:,.1f}, deviation {self.std:,.1f}; {percentiles}"


@dataclass(frozen=True)
class PositionStatistics:
    """Scores and results are from the side to move's point of view."""

    entries: int
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

    @classmethod
    def of_census(cls, census: Census) -> PositionStatistics:
        scores = census.scores.copy()
        no_score = int(scores[NO_SCORE + SCORE_ZERO])
        scores[NO_SCORE + SCORE_ZERO] = 0
        moves = ("normal", "promotion", "castling", "en_passant")
        return cls(
            entries=census.entries,
            score=Distribution.of_counts(scores, SCORE_ZERO),
            no_score=no_score,
            ply=Distribution.of_counts(census.plies),
            results=dict(zip(("loss", "draw", "win"), census.results.tolist(), strict=True)),
            piece_count=Distribution.of_counts(census.piece_counts),
            piece_counts=tuple(census.piece_counts.tolist()),
            moves=dict(zip(moves, census.move_types.tolist(), strict=True)),
            captures=census.captures,
            in_check=census.in_check,
            white_to_move=census.white_to_move,
        )

    def rows(self) -> list[tuple[str, str]]:
        """Names and values for people."""

        def share(count: int) -> str:
            return f"{count:,} ({count / max(self.entries, 1):.1%})"

        def shares(counts: dict[str, int]) -> str:
            return ", ".join(f"{name.replace('_', ' ')} {share(count)}" for name, count in counts.items())

        return [
            ("score", str(self.score)),
            ("without score", share(self.no_score)),
            ("ply", str(self.ply)),
            ("result", shares(self.results)),
            ("pieces", str(self.piece_count)),
            ("moves", shares(self.moves)),
            ("captures", share(self.captures)),
            ("in check", share(self.in_check)),
            ("white to move", share(self.white_to_move)),
        ]
