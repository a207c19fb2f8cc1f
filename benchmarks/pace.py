"""How fast steps follow one another: rates from the moments at which steps were done, in seconds."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

LEAST = 3  # moments that a rate is made of: a slow machine is measured for longer


def counted(moments: Sequence[float], warm_up: float) -> Sequence[float]:
    """Moments after a warm-up of so many seconds, which begins with the first step's end."""
    return [moment for moment in moments if moment > moments[0] + warm_up]


def enough(moments: Sequence[float], warm_up: float, seconds: float) -> bool:
    """Whether warm-up and measurement are over, and there are steps to make a rate of."""
    over = bool(moments) and moments[-1] > moments[0] + warm_up + seconds
    return over and len(counted(moments, warm_up)) >= LEAST


def mean_rate(moments: Sequence[float], warm_up: float) -> float:
    """Steps a second, all counted: snapshots and the like are part of it."""
    later = counted(moments, warm_up)
    return (len(later) - 1) / (later[-1] - later[0])


def median_rate(moments: Sequence[float], warm_up: float) -> float:
    """Steps a second of the median step."""
    between = [second - first for first, second in itertools.pairwise(counted(moments, warm_up))]
    return 1 / statistics.median(between)
