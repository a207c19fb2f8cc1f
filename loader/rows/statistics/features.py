"""Statistics of a file whose rows are a label and a list of feature numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from loader.formats.file_tools import Statistics
from loader.rows.block import Array
from loader.rows.statistics.text import Chunks

_MAX_COUNTED_LABELS = 20  # different labels that are counted one by one


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


class _Range:
    """The smallest and the largest of the numbers that are added."""

    def __init__(self) -> None:
        self.smallest: Any = None
        self.largest: Any = None

    def add(self, numbers: Array) -> None:
        if not len(numbers):
            return
        smallest, largest = numbers.min().item(), numbers.max().item()
        self.smallest = smallest if self.smallest is None else min(self.smallest, smallest)
        self.largest = largest if self.largest is None else max(self.largest, largest)


def compute_statistics(path: Path, chunks: Chunks) -> FeatureStatistics:
    """Reads every row of a file and returns its statistics. Raises DataError at damage."""
    num_rows = num_features = 0
    row_lengths, feature_range, label_range = _Range(), _Range(), _Range()
    has_values = False
    label_counts: Counter[float] | None = Counter()  # None: there are too many different labels
    for rows, error in chunks:
        if error is not None:
            raise error
        labels = rows.dense["label"]
        offsets, features, values = rows.sparse["features"]
        num_rows += len(labels)
        num_features += len(features)
        row_lengths.add(np.diff(offsets))
        feature_range.add(features)
        label_range.add(labels)
        has_values = has_values or (values is not None and bool((values != 1).any()))
        if label_counts is not None:
            label_counts.update(labels.tolist())
            if len(label_counts) > _MAX_COUNTED_LABELS:
                label_counts = None
    return FeatureStatistics(
        file=str(path),
        bytes=path.stat().st_size,
        entries=num_rows,
        features=num_features,
        smallest_number=feature_range.smallest,
        largest_number=feature_range.largest,
        longest_row=row_lengths.largest or 0,
        values=has_values,
        labels={f"{label:g}": count for label, count in sorted((label_counts or {}).items())},
        smallest_label=label_range.smallest,
        largest_label=label_range.largest,
    )
