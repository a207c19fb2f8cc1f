"""Sums up the data that `data.on_bad_data = "skip"` has left out of a run, from the feeders' reports."""

from __future__ import annotations

from collections.abc import Sequence

from loader.stream.config import DataConfig
from loader.stream.skipped_data import SkippedChunks
from loader.stream.sources import create_source
from pool.protocol.messages import LeftOutData, Purpose

_NAMES: dict[Purpose, str] = {"train": "training data", "validate": "validation data"}


class LeftOutSummary:
    """Counts what was left out, by chunk. A restarted feeder that reads a chunk again adds nothing."""

    def __init__(self, config: DataConfig) -> None:
        """Begins with no reports. `config`: names the source, whose samples have a name of their own."""
        self._samples = create_source(config.source).samples
        self._chunks: dict[Purpose, SkippedChunks] = {}

    def add(self, report: LeftOutData) -> str | None:
        """Adds a feeder's report. Returns a line for the user if it is the first about training data, or about
        validation data."""
        is_first = report.purpose not in self._chunks
        self._chunks.setdefault(report.purpose, SkippedChunks()).record(report.chunk, report.kinds)
        if not is_first:
            return None
        found = report.kinds[0].describe(self._samples)
        return f"{_NAMES[report.purpose]}: {found}; all that is left out is counted, and said when the run ends"

    def lines(self) -> Sequence[str]:
        """Returns a line for each kind of data that was left out, with the sum over all chunks."""
        return [
            f"{_NAMES[purpose]}: {kind.describe(self._samples)}"
            for purpose, chunks in self._chunks.items()
            for kind in chunks.totals()
        ]
