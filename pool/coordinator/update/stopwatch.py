"""Measures how long the coordinator adds up gradients and steps the optimizer, for metrics and traces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pool.coordinator.metrics.metrics import Metrics
from pool.telemetry.trace import Trace


class Stopwatch:
    """Measures the coordinator's work, each method one kind of it: the time inside the returned context."""

    def __init__(self, metrics: Metrics, trace: Trace) -> None:
        self._metrics = metrics
        self._trace = trace

    @contextmanager
    def reducing(self, step: int, bucket: int) -> Iterator[None]:
        """Measures the addition of a bucket's gradients, for metrics and the trace."""
        with self._metrics.measured("reducing"), self._trace.span("reduce", step=step, bucket=bucket):
            yield

    @contextmanager
    def optimizing(self, step: int, bucket: int) -> Iterator[None]:
        """Measures the optimizer's step of a bucket, for metrics and the trace."""
        with self._metrics.measured("optimizing"), self._trace.span("optimize", step=step, bucket=bucket):
            yield

    @contextmanager
    def averaging(self, version: int) -> Iterator[None]:
        """Measures the addition of a version to the average of the weights. Only the trace shows it, because workers
        compute meanwhile and nobody waits for it."""
        with self._trace.span("average", version=version):
            yield

    @contextmanager
    def copying_early(self, version: int) -> Iterator[None]:
        """Measures the copying of weights ahead of a step. Only the trace shows it, because workers compute
        meanwhile."""
        with self._trace.span("copy ahead", version=version):
            yield

    @contextmanager
    def committing(self, step: int) -> Iterator[None]:
        """Measures the end of a step, for metrics (as time of the optimizer) and the trace."""
        with self._metrics.measured("optimizing"), self._trace.span("commit", step=step):
            yield
