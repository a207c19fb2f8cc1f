"""Score against result: what positions of each score became of, beside what models say.

Scores and results are the side to move's; a result is 0 for a loss, 1/2 for a draw, 1 for a win.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.chess.statistics.distribution import Counts
from loader.chess.views import ZERO

STEP, LAST, PLY_STEP = 25, 2000, 8  # of the census' plane of scores and plies
_RESULTS = np.array([0.0, 0.5, 1.0])
_SCALES = (5.0, 20000.0)  # that are tried
_TRIED = 48

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """Positions with scores from `low` up to but not including `high`. None: there is no such border."""

    low: int | None
    high: int | None
    loss: int
    draw: int
    win: int
    model: float | None  # mean of what the win-rate model says; None if the plies are not known, or at open borders

    @property
    def entries(self) -> int:
        return self.loss + self.draw + self.win

    @property
    def result(self) -> float | None:
        """Mean."""
        return (self.win + 0.5 * self.draw) / self.entries if self.entries else None


@dataclass(frozen=True)
class Calibration:
    """`results`: [3, 65536] lost, drawn, won, by score + 32768, of entries that have both. `by_ply`: [160, 31]
    entries by score in steps of 25 from -2000 on, and by ply in steps of 8; None if plies are not known."""

    results: Counts
    by_ply: Counts | None

    def intervals(self) -> Iterator[Interval]:
        """From -LAST to LAST, and beyond."""
        edges = [None, *range(-LAST, LAST + 1, STEP), None]
        for low, high in pairwise(edges):
            yield self.interval(low, high)

    def interval(self, low: int | None, high: int | None) -> Interval:
        """Counts an interval of scores, made of whole steps."""
        part = self.results[:, None if low is None else low + ZERO : None if high is None else high + ZERO]
        loss, draw, win = (int(count) for count in part.sum(axis=1))
        return Interval(low, high, loss, draw, win, self._model(low, high))

    def scale(self) -> float | None:
        """K of the curve 1 / (1 + e^(-score / K)) that is nearest to the results, by squares; None if there is none."""
        entries = self.results.sum(axis=0).astype(np.float64)
        used = np.flatnonzero(entries)
        scores, weights = (used - ZERO).astype(np.float64), entries[used]
        if not np.any(scores):
            return None
        means = (_RESULTS @ self.results[:, used]) / weights
        low, high = np.log(_SCALES)
        while high - low > 1e-3:
            tried = np.linspace(low, high, _TRIED)
            errors = [float(np.square(logistic(scores / np.exp(each)) - means) @ weights) for each in tried]
            best = int(np.argmin(errors))
            low, high = tried[max(best - 1, 0)], tried[min(best + 1, _TRIED - 1)]
        found = float(np.exp((low + high) / 2))
        return round(found, 1) if 1.01 * _SCALES[0] < found < 0.99 * _SCALES[1] else None

    def _model(self, low: int | None, high: int | None) -> float | None:
        if self.by_ply is None or low is None or high is None or not -LAST <= low < high <= LAST:
            return None
        rows = slice((low + LAST) // STEP, (high + LAST) // STEP)
        entries = self.by_ply[rows]
        return float((entries * model()[rows]).sum() / entries.sum()) if entries.any() else None


def logistic(x: Numbers) -> Numbers:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(x, -500.0, 500.0))), np.float64)


@cache
def model() -> Numbers:
    """[160, 31]: the mean result that the win-rate model says, in the middle of each step of score and ply."""
    probability = _native.win_draw_loss_probability
    scores = range(-LAST + STEP // 2, LAST, STEP)
    plies = range(PLY_STEP // 2, PLY_STEP * 31, PLY_STEP)
    return np.array(
        [[probability(ply, score, 1) + 0.5 * probability(ply, score, 0) for ply in plies] for score in scores]
    )
