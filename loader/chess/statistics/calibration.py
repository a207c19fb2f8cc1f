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

STEP = 25  # of scores in `Census.score_plies`
MAX_SCORE = 2000  # largest score there
PLY_STEP = 8  # step of plies there
_RESULTS = np.array([0.0, 0.5, 1.0])
_MIN_SCALE, _MAX_SCALE = 5.0, 20000.0  # limits of K
_CANDIDATES = 48  # values of K that are tried in each round

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
        edges = [None, *range(-MAX_SCORE, MAX_SCORE + 1, STEP), None]
        for low, high in pairwise(edges):
            yield self.interval(low, high)

    def interval(self, low: int | None, high: int | None) -> Interval:
        """Returns the results of an interval of scores, whose limits are multiples of 25."""
        begin = None if low is None else low + ZERO
        end = None if high is None else high + ZERO
        loss, draw, win = (int(count) for count in self.results[:, begin:end].sum(axis=1))
        return Interval(low, high, loss, draw, win, self._predict_result(low, high))

    def scale(self) -> float | None:
        """Fits the curve 1 / (1 + e^(-score / K)) to the results by least squares. Returns K, or None if there is no
        best K between about 5 and 20,000."""
        entries = self.results.sum(axis=0).astype(np.float64)
        present = np.flatnonzero(entries)
        scores, weights = (present - ZERO).astype(np.float64), entries[present]
        if not np.any(scores):
            return None
        means = (_RESULTS @ self.results[:, present]) / weights
        low, high = np.log((_MIN_SCALE, _MAX_SCALE))
        while high - low > 1e-3:
            candidates = np.linspace(low, high, _CANDIDATES)
            errors = [float(np.square(logistic(scores / np.exp(log_k)) - means) @ weights) for log_k in candidates]
            best = int(np.argmin(errors))
            low, high = candidates[max(best - 1, 0)], candidates[min(best + 1, _CANDIDATES - 1)]
        scale = float(np.exp((low + high) / 2))
        is_at_limit = not 1.01 * _MIN_SCALE < scale < 0.99 * _MAX_SCALE
        return None if is_at_limit else round(scale, 1)

    def _predict_result(self, low: int | None, high: int | None) -> float | None:
        """Returns the mean result that the win-rate model predicts for positions in an interval, weighted by their
        plies. None if plies are not known, or for an open interval."""
        if self.by_ply is None or low is None or high is None or not -MAX_SCORE <= low < high <= MAX_SCORE:
            return None
        rows = slice((low + MAX_SCORE) // STEP, (high + MAX_SCORE) // STEP)
        entries = self.by_ply[rows]
        if not entries.any():
            return None
        return float((entries * model_results()[rows]).sum() / entries.sum())


def logistic(x: Numbers) -> Numbers:
    """Evaluates 1 / (1 + e^-x)."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(x, -500.0, 500.0))), np.float64)


@cache
def model_results() -> Numbers:
    """Returns the mean results that the win-rate model predicts, [160, 31], in the middle of each step of score and
    ply."""
    probability = _native.win_draw_loss_probability
    scores = range(-MAX_SCORE + STEP // 2, MAX_SCORE, STEP)
    plies = range(PLY_STEP // 2, PLY_STEP * 31, PLY_STEP)
    return np.array(
        [[probability(ply, score, 1) + 0.5 * probability(ply, score, 0) for ply in plies] for score in scores]
    )
