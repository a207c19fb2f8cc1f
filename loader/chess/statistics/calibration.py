"""Calibration of scores: the mean result of positions with each score, beside what two models predict.

Scores and results are from the side to move's view. A result is 0 for a loss, 1/2 for a draw, 1 for a win.
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

STEP, LAST, PLY_STEP = 25, 2000, 8  # step of scores, largest score and step of plies in `Census.score_plies`
_RESULTS = np.array([0.0, 0.5, 1.0])
_SCALES = (5.0, 20000.0)  # least and largest K that are tried
_TRIED = 48  # values of K that are tried in each round

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """The results of positions with scores from `low` up to but not including `high`. None: the interval is open on
    that side."""

    low: int | None
    high: int | None
    loss: int
    draw: int
    win: int
    model: float | None  # mean result by the win-rate model; None if plies are not known, or for an open interval

    @property
    def entries(self) -> int:
        """Returns the number of positions."""
        return self.loss + self.draw + self.win

    @property
    def result(self) -> float | None:
        """Returns the mean result, 0 to 1, or None without positions."""
        return (self.win + 0.5 * self.draw) / self.entries if self.entries else None


@dataclass(frozen=True)
class Calibration:
    """Counts of results by score, from which mean results and the best curve are computed.

    `results` is [3, 65536]: positions lost, drawn and won, by score + 32768, of entries that have both score and
    result. `by_ply` is [160, 31]: entries by score in steps of 25 from -2000 on, and by ply in steps of 8. It is None
    if plies are not known.
    """

    results: Counts
    by_ply: Counts | None

    def intervals(self) -> Iterator[Interval]:
        """Yields the intervals of 25 points of score from -2000 to 2000, and the two open intervals beyond."""
        edges = [None, *range(-LAST, LAST + 1, STEP), None]
        for low, high in pairwise(edges):
            yield self.interval(low, high)

    def interval(self, low: int | None, high: int | None) -> Interval:
        """Returns the results of an interval of scores, whose limits are multiples of 25."""
        part = self.results[:, None if low is None else low + ZERO : None if high is None else high + ZERO]
        loss, draw, win = (int(count) for count in part.sum(axis=1))
        return Interval(low, high, loss, draw, win, self._model(low, high))

    def scale(self) -> float | None:
        """Fits the curve 1 / (1 + e^(-score / K)) to the results by least squares. Returns K, or None if there is no
        best K between about 5 and 20,000."""
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
        """Returns the mean result that the win-rate model predicts for positions in an interval, weighted by their
        plies. None if plies are not known, or for an open interval."""
        if self.by_ply is None or low is None or high is None or not -LAST <= low < high <= LAST:
            return None
        rows = slice((low + LAST) // STEP, (high + LAST) // STEP)
        entries = self.by_ply[rows]
        return float((entries * model()[rows]).sum() / entries.sum()) if entries.any() else None


def logistic(x: Numbers) -> Numbers:
    """Evaluates 1 / (1 + e^-x)."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(x, -500.0, 500.0))), np.float64)


@cache
def model() -> Numbers:
    """Returns the mean results that the win-rate model predicts, [160, 31], in the middle of each step of score and
    ply."""
    probability = _native.win_draw_loss_probability
    scores = range(-LAST + STEP // 2, LAST, STEP)
    plies = range(PLY_STEP // 2, PLY_STEP * 31, PLY_STEP)
    return np.array(
        [[probability(ply, score, 1) + 0.5 * probability(ply, score, 0) for ply in plies] for score in scores]
    )
