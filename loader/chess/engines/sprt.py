"""A sequential test of two Elo differences: after each pair of games it accepts one of them, or wants more games.

The generalized sequential probability ratio test of fishtest and fastchess (there `model=logistic`): the likelihood of
the pairs' results under each hypothesis, by the distribution of pairs that has its score and fits the results best.
Formulas: Michel Van den Bergh, Comments on Normalized Elo, proposition 1.1,
https://www.cantate.be/Fishtest/normalized_elo_practical.pdf
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

ERROR = 0.05  # of both kinds: alpha and beta
LOWER = math.log(ERROR / (1 - ERROR))  # of the log-likelihood ratio; at it or below, H0 is accepted
UPPER = math.log((1 - ERROR) / ERROR)  # at it or above, H1
MAX_ELO = 1000.0
_NEVER_SEEN = 1e-3  # pairs: what fishtest and fastchess count for a result that has not come yet
_HALVINGS = 64  # of an interval of a few hundred at most: what is left rounds to nothing


@dataclass(frozen=True)
class Sprt:
    """The hypotheses: the first engine is so many Elo stronger. `elo0` < `elo1`, both within +-MAX_ELO."""

    elo0: float  # H0
    elo1: float  # H1

    def llr(self, pairs: Sequence[int]) -> float:
        """Returns the log-likelihood ratio of H1 to H0 for so many pairs with 0, 1/2, 1, 3/2 and 2 points; 0 before the
        first one."""
        if not any(pairs):
            return 0.0
        counts = [count or _NEVER_SEEN for count in pairs]
        under0, under1 = (_divisors(counts, 1 / (1 + 10 ** (-elo / 400))) for elo in (self.elo0, self.elo1))
        return sum(count * math.log(one / other) for count, one, other in zip(counts, under0, under1, strict=True))

    def accepted(self, pairs: Sequence[int]) -> Literal["H0", "H1"] | None:
        """Returns the hypothesis that these pairs decide for, or None."""
        llr = self.llr(pairs)
        if llr <= LOWER:
            return "H0"
        return "H1" if llr >= UPPER else None


def _divisors(counts: Sequence[float], score: float) -> list[float]:
    """Returns what the frequencies of pairs are divided by for those of the likeliest distribution with a mean of
    `score`: with its Lagrange multiplier t, 1 + t (points - score). The mean's error falls with t between two poles."""
    offsets = [points / (len(counts) - 1) - score for points in range(len(counts))]
    low, high = -1 / offsets[-1], -1 / offsets[0]
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        divisors = [1 + middle * offset for offset in offsets]
        if min(divisors) > 0:
            error = sum(count * offset / by for count, offset, by in zip(counts, offsets, divisors, strict=True))
        else:  # beside a pole, by rounding
            error = -middle
        low, high = (middle, high) if error > 0 else (low, middle)
    return [1 + high * offset for offset in offsets]
