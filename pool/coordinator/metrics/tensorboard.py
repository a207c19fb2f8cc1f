"""Writes curves for TensorBoard, a few points a second at most. Points that can't be written are lost."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from pool.coordinator.metrics.newest import NewestNumbers
from pool.telemetry.event_file import EventFile

TENSORBOARD = "tensorboard"
EVENT_SECONDS = 0.2  # smallest time between two points of a curve
EVENT_RETRY_SECONDS = 10.0  # until the next try when a point can't be written


class TensorBoard:
    """The sink that writes TensorBoard's event files (`ResumedSink`)."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / TENSORBOARD
        self._events = EventFile(self.path)
        self._newest = NewestNumbers()
        self._next = 0.0

    def resume(self, step: int) -> None:
        self._events.begin_at = step + 1 if step else 0  # points of later steps are removed; for step 0, all points

    def add(self, step: int, scalars: Mapping[str, float]) -> bool:
        self._newest.add(step, scalars)
        if (now := time.monotonic()) < self._next:  # the system's clock may be set back
            return False
        self._next = now + EVENT_SECONDS
        self._write()
        return True

    def close(self) -> None:
        try:
            self._write()
        finally:
            self._events.close()

    def _write(self) -> None:
        try:
            for step, values in self._newest.take().items():
                self._events.add(step, values)
        except OSError:
            self._next = time.monotonic() + EVENT_RETRY_SECONDS
            raise
