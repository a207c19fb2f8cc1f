"""A sequential test (SPRT) of two Elo differences. After each pair of games it accepts one of them, or asks for more
games.

The generalized sequential probability ratio test of fishtest and fastchess (there `model=logistic`). It compares the
likelihoods of the pairs' results under both hypotheses. Under each, the distribution of pairs is the one that has the
hypothesis's mean score and fits the results best. Formulas: Michel Van den Bergh, Comments on Normalized Elo,
proposition 1.1, https://www.cantate.be/Fishtest/normalized_elo_practical.pdf
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

ERROR = 0.05  # probability of accepting the wrong hypothesis, for both (alpha and beta)
LOWER = math.log(ERROR / (1 - ERROR))  # log-likelihood ratio at or below which H0 is accepted
UPPER = math.log((1 - ERROR) / ERROR)  # log-likelihood ratio at or above which H1 is accepted
MAX_ELO = 1000.0
_NEVER_SEEN = 1e-3  # pairs counted for a result that has not occurred yet, as in fishtest and fastchess
_HALVINGS = 64  # bisection steps, which shrink an interval of a few hundred to less than rounding


@dataclass(frozen=True)
class Sprt:
    """The two hypotheses of a test: the first engine is `elo0` (H0) or `elo1` (H1) Elo stronger. `elo0` < `elo1`, both
    within +-MAX_ELO."""

    elo0: float  # H0
    elo1: float  # H1

    def llr(self, pairs: Sequence[int]) -> float:
        """Returns the log-likelihood ratio of H1 to H0. `pairs` has the number of pairs with 0, 1/2, 1, 3/2 and 2
        points. Returns 0 before the first pair."""
        if not any(pairs):
            return 0.0
        counts = [count or _NEVER_SEEN for count in pairs]
        divisors0 = _divisors(counts, _expected_score(self.elo0))
        divisors1 = _divisors(counts, _expected_score(self.elo1))
        return sum(count * math.log(d0 / d1) for count, d0, d1 in zip(counts, divisors0, divisors1, strict=True))

    def accepted_hypothesis(self, pairs: Sequence[int]) -> Literal["H0", "H1"] | None:
        """Returns the hypothesis that the test accepts after these pairs, "H0" or "H1", or None if more games are
        needed."""
        llr = self.llr(pairs)
        if llr <= LOWER:
            return "H0"
        return "H1" if llr >= UPPER else None


def _expected_score(elo: float) -> float:
    """Returns the score, 0 to 1, that is expected of the engine that is `elo` stronger (logistic Elo)."""
    return 1 / (1 + 10 ** (-elo / 400))


def _divisors(counts: Sequence[float], score: float) -> list[float]:
    """Computes the divisors that turn the measured frequencies of pair results into the likeliest distribution with the
    mean `score`.

    The divisors are 1 + t (points - score), with the Lagrange multiplier t. The error of the mean falls with t between
    two poles, so t is found by bisection.
    """
    offsets = [points / (len(counts) - 1) - score for points in range(len(counts))]
    low, high = -1 / offsets[-1], -1 / offsets[0]
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        divisors = [1 + middle * offset for offset in offsets]
        if min(divisors) > 0:
            terms = zip(counts, offsets, divisors, strict=True)
            error = sum(count * offset / divisor for count, offset, divisor in terms)
        else:  # rounding has put the point on the wrong side of a pole
            error = -middle
        if error > 0:
            low = middle
        else:
            high = middle
    return [1 + high * offset for offset in offsets]
