"""Statistics of a file whose rows are a label and a list of feature numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from loader.formats.file_tools import Statistics
from loader.rows.statistics.text import Chunks

_LABELS = 20  # most different labels that are counted one by one


@dataclass(frozen=True)
class FeatureStatistics(Statistics):
    """The statistics of a file of feature numbers."""

    file: str
    bytes: int
    entries: int
    features: int  # number of features in all rows
    smallest_number: int | None
    largest_number: int | None
    longest_row: int  # features of the longest row
    values: bool  # some value is not 1
    labels: dict[str, int]  # number of rows with each label; empty if there are many labels
    smallest_label: float | None
    largest_label: float | None

    def to_dict(self) -> dict[str, Any]:
        """Returns the statistics as plain data, for JSON."""
        return asdict(self)

    def rows(self) -> list[tuple[str, str]]:
        mean = self.features / max(self.entries, 1)
        labels = ", ".join(f"{label}: {count:,}" for label, count in self.labels.items())
        return [
            ("bytes", f"{self.bytes:,}"),
            ("rows", f"{self.entries:,} ({self.bytes / max(self.entries, 1):,.1f} bytes each)"),
            ("features", f"{self.features:,} ({mean:,.1f} a row, {self.longest_row} at most)"),
            ("numbers", "none" if self.smallest_number is None else f"{self.smallest_number} to {self.largest_number}"),
            ("values", "any" if self.values else "all are 1"),
            ("labels", labels or f"{self.smallest_label} to {self.largest_label}"),
        ]


def compute_statistics(path: Path, chunks: Chunks) -> FeatureStatistics:
    """Reads every row of a file and returns its statistics. Raises DataError at damage."""
    entries = features = longest = 0
    numbers: list[int] = []  # smallest and largest number so far
    values = False
    labels: Counter[float] | None = Counter()
    extremes: list[float] = []
    for rows, error in chunks:
        if error is not None:
            raise error
        label = rows.dense["label"]
        offsets, found, weights = rows.sparse["features"]
        entries += len(label)
        features += len(found)
        if len(label):
            longest = max(longest, int(np.diff(offsets).max()))
            extremes = [min([*extremes, float(label.min())]), max([*extremes, float(label.max())])]
        if len(found):
            numbers = [min([*numbers, int(found.min())]), max([*numbers, int(found.max())])]
        values = values or (weights is not None and bool((weights != 1).any()))
        if labels is not None:
            labels.update(dict(zip(*(part.tolist() for part in np.unique(label, return_counts=True)), strict=True)))
            labels = labels if len(labels) <= _LABELS else None
    return FeatureStatistics(
        file=str(path),
        bytes=path.stat().st_size,
        entries=entries,
        features=features,
        smallest_number=numbers[0] if numbers else None,
        largest_number=numbers[1] if numbers else None,
        longest_row=longest,
        values=values,
        labels={f"{label:g}": count for label, count in sorted((labels or {}).items())},
        smallest_label=extremes[0] if extremes else None,
        largest_label=extremes[1] if extremes else None,
    )
