"""Sums of what `data.on_bad_data = "skip"` has left out of a run's data, from the feeders' reports."""

from __future__ import annotations

from collections.abc import Sequence

from loader.stream.config import DataConfig
from loader.stream.left_out import LeftOutChunks
from loader.stream.sources import source_by_name
from pool.protocol.messages import LeftOutData, Purpose

_NAMES: dict[Purpose, str] = {"train": "training data", "validate": "validation data"}


class LeftOutSummary:
    """Holds what was left out of each chunk: a feeder that reads again what its predecessor has read adds nothing."""

    def __init__(self, config: DataConfig) -> None:
        self._samples = source_by_name(config.source).samples
        self._chunks: dict[Purpose, LeftOutChunks] = {}

    def add(self, report: LeftOutData) -> str | None:
        """Adds a report. Returns a line for the terminal if it is the first of these data."""
        is_first = report.purpose not in self._chunks
        self._chunks.setdefault(report.purpose, LeftOutChunks()).record(report.chunk, report.kinds)
        if not is_first:
            return None
        found = report.kinds[0].describe(self._samples)
        return f"{_NAMES[report.purpose]}: {found}; all that is left out is counted, and said when the run ends"

    def lines(self) -> Sequence[str]:
        """Returns what was left out in all, a line for each kind."""
        return [
            f"{_NAMES[purpose]}: {kind.describe(self._samples)}"
            for purpose, chunks in self._chunks.items()
            for kind in chunks.totals()
        ]
