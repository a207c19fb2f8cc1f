"""Records in the trace when a device does what: bars measured by its own events, which are read when they have
happened.

Without a trace (`run.trace`) nothing is recorded and nobody waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from pool.device.event_waiter import Arrivals
from pool.telemetry.trace import Trace

COPIES_IN, COMPUTES, COPIES_OUT = "device: copies in", "device: computes", "device: copies out"  # rows of the trace
_FAR = 10_000.0  # milliseconds after which the zero of time is moved, since drivers measure in float32


@dataclass(frozen=True)
class Begun:
    """The beginning of a bar: an event on a stream."""

    stream: torch.Stream
    event: torch.Event


class Bars(Protocol):
    """Records bars of the trace for what is queued on a device's streams."""

    def begin(self, stream: torch.Stream | None = None) -> Begun | None:
        """Begins a bar of what is queued on a stream from now on. `stream`: None for the current one. Returns None if
        there is no trace."""

    def end(self, begun: Begun | None, row: str, name: str, **arguments: Any) -> None:
        """Ends a bar at what is queued on its stream by now. `row`, `name`, `arguments`: the bar's, in the trace."""


class NoBars:
    """Implements `Bars` for a run without a trace."""

    def begin(self, stream: torch.Stream | None = None) -> None:
        pass

    def end(self, begun: Begun | None, row: str, name: str, **arguments: Any) -> None:
        pass


class DeviceBars:
    """Implements `Bars` by events of a device."""

    def __init__(self, trace: Trace, device: torch.device, arrivals: Arrivals) -> None:
        """Records the event from which times are measured, and waits for it once."""
        self._trace = trace
        self._device = device
        self._arrivals = arrivals
        self._zero = self._recorded(torch.accelerator.current_stream(device))
        self._zero.synchronize()
        self._zero_us = trace.now()

    def begin(self, stream: torch.Stream | None = None) -> Begun:
        stream = stream or torch.accelerator.current_stream(self._device)
        return Begun(stream, self._recorded(stream))

    def end(self, begun: Begun | None, row: str, name: str, **arguments: Any) -> None:
        assert begun is not None
        first, last = begun.event, self._recorded(begun.stream)
        self._arrivals.when(last, lambda: self._write(first, last, row, name, arguments))

    def _write(self, first: torch.Event, last: torch.Event, row: str, name: str, arguments: dict[str, Any]) -> None:
        """Writes a bar whose events have happened. Moves the zero of time when it is so far back that float32 is not
        exact enough."""
        since = self._zero.elapsed_time(first)
        begin = self._zero_us + 1e3 * since
        self._trace.bar(row, name, begin, 1e3 * first.elapsed_time(last), **arguments)
        if since > _FAR:
            self._zero, self._zero_us = first, begin

    def _recorded(self, stream: torch.Stream) -> torch.Event:
        return stream.record_event(torch.Event(self._device, enable_timing=True))


def bars_of(trace: Trace, device: torch.device, arrivals: Arrivals) -> Bars:
    """Returns what records bars for a device: nothing is recorded if the trace is off."""
    return DeviceBars(trace, device, arrivals) if trace.is_on else NoBars()
