"""Divides the samples of one validation into batches, and averages the batches' values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean


@dataclass(frozen=True)
class ValidationPass:
    """Describes the samples of one validation and how they are cut into batches. Batches are whole. Only if `ends` says
    that the stream has no more samples (train.validation_batches = "all") may the last one be smaller."""

    samples: int
    batch_size: int
    ends: bool = False

    @property
    def batches(self) -> int:
        """The number of batches."""
        return -(-self.samples // self.batch_size)

    def size(self, batch: int) -> int:
        """Returns the number of samples in batch number `batch`."""
        return min(self.batch_size, self.samples - batch * self.batch_size)

    def mean(self, values: Sequence[float]) -> float:
        """Returns the mean over all samples, given the mean of each batch in order. Batches count by their sizes."""
        if self.samples % self.batch_size == 0:
            return fmean(values)
        return fmean(values, weights=[self.size(batch) for batch in range(self.batches)])
