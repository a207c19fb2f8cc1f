"""Counts how often data use each feature, and what share of the uses is of features that were never trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from loader.stream.schema import SparseBatch

_SMALL_SHARE = 0.01  # of a field's uses: a smaller share is not worth a message
_MAX_UINT32 = int(np.iinfo(np.uint32).max)


@dataclass(frozen=True)
class UntrainedShare:
    """The share of a field's features, and of their uses in some data, that were never trained."""

    field: str
    features: int  # number of different features
    untrained: int  # number of them that were never trained
    uses: int  # of all features, in all bags (a sample's features of the field)
    untrained_uses: int

    @property
    def is_small(self) -> bool:
        """Whether the share of uses is too small to be worth a message."""
        return self.untrained_uses <= _SMALL_SHARE * self.uses

    def describe(self, fact: str) -> str:
        """Returns a line for people with the counts and the share. `fact` names the data and what is true of the
        untrained features in them."""
        return (
            f"{self.field}: {self.untrained:,} of the {self.features:,} different features in {fact}, "
            f"{self.untrained_uses / max(self.uses, 1):.1%} of all uses"
        )


@dataclass(frozen=True)
class FieldUses:
    """The features of one field that occur in some data, and how often each occurs."""

    field: str
    features: npt.NDArray[np.intp]  # ascending
    uses: npt.NDArray[np.int64]  # of each feature

    def share(self, untrained: npt.NDArray[np.bool_]) -> UntrainedShare:
        """Returns the share of untrained features. `untrained` says of each feature in `features` whether it was never
        trained."""
        untrained_uses = int(self.uses[untrained].sum())
        return UntrainedShare(
            self.field, len(self.features), int(untrained.sum()), int(self.uses.sum()), untrained_uses
        )


class FeatureUses:
    """Counts how often each feature of each field is used in batches."""

    def __init__(self) -> None:
        self._counts: dict[str, npt.NDArray[Any]] = {}
        self._totals: dict[str, int] = {}

    def add(self, batch: SparseBatch) -> None:
        """Counts the features of one more batch."""
        for name, view in batch.sparse.items():
            if not view.touched.size:
                continue
            counts = self._enlarged_counts(name, int(view.touched[-1]) + 1, view.features.size)
            counts[view.touched] += np.diff(view.touched_offsets)

    def of_fields(self) -> dict[str, FieldUses]:
        """Returns the counts so far, by field. A field without any use is left out."""
        used = {field: np.flatnonzero(counts) for field, counts in self._counts.items()}
        return {
            field: FieldUses(field, features, self._counts[field][features].astype(np.int64))
            for field, features in used.items()
        }

    def _enlarged_counts(self, name: str, features: int, uses: int) -> npt.NDArray[Any]:
        """Returns the counts of a field, enlarged to at least `features` entries. They become 64 bits wide once the
        field's total, with `uses` more, does not fit 32 bits."""
        counts = self._counts.get(name, np.zeros(0, np.uint32))
        self._totals[name] = self._totals.get(name, 0) + uses
        if features > len(counts):
            longer = np.zeros(max(features, 2 * len(counts)), counts.dtype)
            longer[: len(counts)] = counts
            counts = longer
        if self._totals[name] > _MAX_UINT32:
            counts = counts.astype(np.int64, copy=False)
        self._counts[name] = counts
        return counts
