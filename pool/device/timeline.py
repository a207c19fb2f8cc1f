"""Records in the trace what a device does and when: spans between two of its own events.

The events are read when both have happened. Without a trace (`run.trace`) nothing is recorded and nobody waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from pool.device.event_waiter import EventWaiter
from pool.telemetry.trace import Trace

COPIES_IN, COMPUTES, COPIES_OUT = "device: copies in", "device: computes", "device: copies out"  # rows of the trace
_MAX_AGE_MS = 10_000.0  # after so long the time origin is moved, since drivers measure in float32


@dataclass(frozen=True)
class SpanStart:
    """The start of a span: an event on a stream."""

    stream: torch.Stream
    event: torch.Event


class Timeline(Protocol):
    """Records spans of the work that is queued on a device's streams."""

    def start_span(self, stream: torch.Stream | None = None) -> SpanStart | None:
        """Starts a span with the next work that is queued on a stream. `stream`: None for the current one. Returns None
        if there is no trace."""

    def end_span(self, start: SpanStart | None, row: str, name: str, **arguments: Any) -> None:
        """Ends a span after the work that is queued on its stream so far. `row`, `name`, `arguments`: as the trace
        shows them."""


class NoTimeline:
    """Implements `Timeline` for a run without a trace."""

    def start_span(self, stream: torch.Stream | None = None) -> None:
        pass

    def end_span(self, start: SpanStart | None, row: str, name: str, **arguments: Any) -> None:
        pass


class DeviceTimeline:
    """Implements `Timeline` by events of a device."""

    def __init__(self, trace: Trace, device: torch.device, event_waiter: EventWaiter) -> None:
        """Records the event from which times are measured, and waits for it once."""
        self._trace = trace
        self._device = device
        self._event_waiter = event_waiter
        self._origin = self._record_event(torch.accelerator.current_stream(device))
        self._origin.synchronize()
        self._origin_us = trace.now()

    def start_span(self, stream: torch.Stream | None = None) -> SpanStart:
        stream = stream or torch.accelerator.current_stream(self._device)
        return SpanStart(stream, self._record_event(stream))

    def end_span(self, start: SpanStart | None, row: str, name: str, **arguments: Any) -> None:
        assert start is not None
        first, last = start.event, self._record_event(start.stream)
        self._event_waiter.call_after(last, lambda: self._write_span(first, last, row, name, arguments))

    def _write_span(
        self, first: torch.Event, last: torch.Event, row: str, name: str, arguments: dict[str, Any]
    ) -> None:
        """Writes a span whose events have happened. Moves the time origin when it is so old that float32 is not exact
        enough."""
        age_ms = self._origin.elapsed_time(first)
        start_us = self._origin_us + 1e3 * age_ms
        duration_us = 1e3 * first.elapsed_time(last)
        self._trace.bar(row, name, start_us, duration_us, **arguments)
        if age_ms > _MAX_AGE_MS:
            self._origin, self._origin_us = first, start_us

    def _record_event(self, stream: torch.Stream) -> torch.Event:
        return stream.record_event(torch.Event(self._device, enable_timing=True))


def open_timeline(trace: Trace, device: torch.device, event_waiter: EventWaiter) -> Timeline:
    """Returns the timeline of a device, which records nothing if the trace is off."""
    return DeviceTimeline(trace, device, event_waiter) if trace.is_on else NoTimeline()
