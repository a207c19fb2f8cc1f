"""Sums up the data that `data.on_bad_data = "skip"` has left out of a run, from the feeders' reports."""

from __future__ import annotations

from collections.abc import Sequence

from loader.stream.config import DataConfig
from loader.stream.skipped_data import SkippedChunks
from loader.stream.sources import create_source
from pool.protocol.messages import Purpose, SkippedDataReport

_DATA_NAMES: dict[Purpose, str] = {"train": "training data", "validate": "validation data"}


class SkippedSummary:
    """Counts the skipped data of each chunk. A chunk that a restarted feeder reports again counts once."""

    def __init__(self, config: DataConfig) -> None:
        """Begins with no reports. `config`: names the source, which has its own word for samples."""
        self._sample_name = create_source(config.source).samples
        self._chunks: dict[Purpose, SkippedChunks] = {}

    def add(self, report: SkippedDataReport) -> str | None:
        """Adds a feeder's report. Returns a line for the user if this is the first report about training data, or the
        first about validation data."""
        is_first = report.purpose not in self._chunks
        chunks = self._chunks.setdefault(report.purpose, SkippedChunks())
        chunks.record(report.chunk, report.kinds)
        if not is_first:
            return None
        first_kind = report.kinds[0].describe(self._sample_name)
        return (
            f"{_DATA_NAMES[report.purpose]}: {first_kind}; all that is left out is counted, and said when the run ends"
        )

    def lines(self) -> Sequence[str]:
        """Returns a line for each kind of skipped data, with the sum over all chunks."""
        lines = []
        for purpose, chunks in self._chunks.items():
            lines += [f"{_DATA_NAMES[purpose]}: {kind.describe(self._sample_name)}" for kind in chunks.totals()]
        return lines
