"""TensorBoard's curves: a few points a second at most. Points that can't be written are lost."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from pool.metrics.layout import NET, PREFIX
from pool.metrics.medians import member_of
from pool.telemetry.event_file import EventFile

TENSORBOARD = "tensorboard"
EVENT_SECONDS = 0.2  # between two points of a curve, at least
EVENT_RETRY_SECONDS = 10.0  # until the next try when a point can't be written

# Tags of the curves by the field of metrics.jsonl: what comes before the slash is TensorBoard's group.
TAGS = {
    "loss": "loss/train",
    "validation_loss": "loss/validation",
    "learning_rate": "schedule/learning_rate",
    "epoch": "schedule/epoch",
    "samples_per_second": "speed/samples_per_second",
    "gradient_mb": "speed/gradient_mb",
    "sent_mb": "speed/sent_mb",
    "compute": "time/compute",
    "loader": "time/loader",
    "reduce": "time/reduce",
    "optimizer": "time/optimizer",
    "weights": "time/weights",
}


class TensorBoard:
    """A ResumedSink."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / TENSORBOARD
        self._events = EventFile(self.path)
        self._waiting: dict[str, tuple[float, int]] = {}  # tag -> newest value, and its step
        self._next = 0.0

    def resume(self, step: int) -> None:
        self._events.begin_at = step + 1 if step else 0  # a point at `step` itself stays, but for the very first

    def add(self, step: int, scalars: Mapping[str, float]) -> bool:
        self._waiting |= {_tag(name): (value, step) for name, value in scalars.items()}
        if (now := time.monotonic()) < self._next:  # the other clock may be set back
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
        waiting, self._waiting = self._waiting, {}
        try:
            for step, values in _by_step(waiting).items():
                self._events.add(step, values)
        except OSError:
            self._next = time.monotonic() + EVENT_RETRY_SECONDS
            raise


def _tag(name: str) -> str:
    """A metric of the task's has no tag of its own; each member's number is a curve beside that of all."""
    if (own := member_of(name)) is not None:
        return f"{_tag(own[1])}/member {own[0]}"
    if name.startswith(NET):
        return f"net/{name.removeprefix(NET)}"
    return TAGS.get(name) or f"validation/{name.removeprefix(PREFIX)}"


def _by_step(scalars: Mapping[str, tuple[float, int]]) -> dict[int, dict[str, float]]:
    """The newest values by the step that each is of, in order."""
    steps = sorted({step for _, step in scalars.values()})
    return {step: {tag: value for tag, (value, its) in scalars.items() if its == step} for step in steps}
