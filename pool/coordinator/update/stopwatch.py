"""Measures the coordinator's time for sums and for the optimizer, for metrics and traces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pool.coordinator.metrics.metrics import Metrics
from pool.telemetry.trace import Trace


class Stopwatch:
    def __init__(self, metrics: Metrics, trace: Trace) -> None:
        self._metrics = metrics
        self._trace = trace

    @contextmanager
    def reducing(self, step: int, bucket: int) -> Iterator[None]:
        with self._metrics.measured("reducing"), self._trace.span("reduce", step=step, bucket=bucket):
            yield

    @contextmanager
    def optimizing(self, step: int, bucket: int) -> Iterator[None]:
        with self._metrics.measured("optimizing"), self._trace.span("optimize", step=step, bucket=bucket):
            yield

    @contextmanager
    def averaging(self, version: int) -> Iterator[None]:
        """While workers compute: nobody waits for it."""
        with self._trace.span("average", version=version):
            yield

    @contextmanager
    def ahead(self, version: int) -> Iterator[None]:
        """Measures what is done ahead."""
        with self._trace.span("copy ahead", version=version):
            yield

    @contextmanager
    def committing(self, step: int) -> Iterator[None]:
        with self._metrics.measured("optimizing"), self._trace.span("commit", step=step):
            yield
