"""Bars of the trace that show what a device does when: measured by its own events, read when they have happened.

Without a trace (`run.trace`) nothing is recorded and nobody waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from pool.device.event_waiter import Arrivals
from pool.telemetry.trace import Trace

COPIES_IN, COMPUTES, COPIES_OUT = "device: copies in", "device: computes", "device: copies out"  # rows
_FAR = 10_000.0  # milliseconds: drivers count in float32


@dataclass(frozen=True)
class Begun:
    stream: torch.Stream
    event: torch.Event


class Bars(Protocol):
    def begin(self, stream: torch.Stream | None = None) -> Begun | None:
        """Begins a bar of what is queued on a stream from now on, None: the current one. Returns None if there is no
        trace."""

    def end(self, begun: Begun | None, row: str, name: str, **arguments: Any) -> None:
        """Until now."""


class NoBars:
    """Bars."""

    def begin(self, stream: torch.Stream | None = None) -> None:
        pass

    def end(self, begun: Begun | None, row: str, name: str, **arguments: Any) -> None:
        pass


class DeviceBars:
    """Bars."""

    def __init__(self, trace: Trace, device: torch.device, arrivals: Arrivals) -> None:
        """Waits for the device, once."""
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
        since = self._zero.elapsed_time(first)
        begin = self._zero_us + 1e3 * since
        self._trace.bar(row, name, begin, 1e3 * first.elapsed_time(last), **arguments)
        if since > _FAR:
            self._zero, self._zero_us = first, begin

    def _recorded(self, stream: torch.Stream) -> torch.Event:
        return stream.record_event(torch.Event(self._device, enable_timing=True))


def bars_of(trace: Trace, device: torch.device, arrivals: Arrivals) -> Bars:
    return DeviceBars(trace, device, arrivals) if trace.is_on else NoBars()
