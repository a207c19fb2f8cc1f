"""The batches of one validation, and the mean of what each of them gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean


@dataclass(frozen=True)
class ValidationPass:
    """The samples that a validation takes: whole batches, of which the last may be smaller if `ends` says that the
    stream has no more (train.validation_batches = "all")."""

    samples: int
    batch_size: int
    ends: bool = False

    @property
    def batches(self) -> int:
        return -(-self.samples // self.batch_size)

    def size(self, batch: int) -> int:
        """Returns the samples of a batch."""
        return min(self.batch_size, self.samples - batch * self.batch_size)

    def mean(self, values: Sequence[float]) -> float:
        """The mean over all samples; `values`: of each batch its mean."""
        if self.samples % self.batch_size == 0:
            return fmean(values)
        return fmean(values, weights=[self.size(batch) for batch in range(self.batches)])
