"""Summaries of whole numbers that positions have, such as scores or plies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Distribution:
    """Minimum, maximum, mean, standard deviation and percentiles of whole numbers. All are 0 if there are no
    numbers."""

    min: int
    max: int
    mean: float
    std: float
    p5: int
    median: int
    p95: int

    @classmethod
    def from_counts(cls, counts: Counts, zero: int = 0) -> Distribution:
        """Summarizes a histogram: counts[i] is how often the number i - zero occurs."""
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


def trimmed(counts: Counts) -> list[int]:
    """Returns the counts as a list, without zeros at its end."""
    present = np.flatnonzero(counts)
    return [int(count) for count in counts[: present[-1] + 1]] if len(present) else []
