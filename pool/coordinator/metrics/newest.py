"""Curves for people: names each number by the group that its curve is shown in, and keeps the newest number of each
curve until it is sent on."""

from __future__ import annotations

from collections.abc import Mapping

from pool.metrics.layout import NET, PREFIX, TRAIN
from pool.metrics.medians import split_member_name

# Tags of the curves, by field of metrics.jsonl. The part before the slash is the group that the curve is shown in.
TAGS = {
    "loss": "loss/train",
    "validation_loss": "loss/validation",
    "learning_rate": "schedule/learning_rate",
    "epoch": "schedule/epoch",
    "samples_per_second": "speed/samples_per_second",
    "gradient_mb": "speed/gradient_mb",
    "sent_mb": "speed/sent_mb",
    "batches_ready": "speed/batches_ready",
    "compute": "time/compute",
    "loader": "time/loader",
    "reduce": "time/reduce",
    "optimizer": "time/optimizer",
    "machines": "time/machines",
    "weights": "time/weights",
}


class NewestNumbers:
    """Keeps the newest number of each curve among those that have come since the last `take`."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[float, int]] = {}  # by tag: value and step

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        """Takes numbers of a step by their names in metrics.jsonl, as the newest of their curves."""
        self._waiting |= {_tag(name): (value, step) for name, value in scalars.items()}

    def take(self) -> dict[int, dict[str, float]]:
        """Returns the newest number of each curve since the last call: by step, in order, values by the curve's tag."""
        waiting, self._waiting = self._waiting, {}
        steps = sorted({step for _, step in waiting.values()})
        return {step: {tag: value for tag, (value, its) in waiting.items() if its == step} for step in steps}


def _tag(name: str) -> str:
    """Returns the tag under which a number is shown as a curve, such as loss/train. A number of one member (network of
    an ensemble) gets a tag of its own below that of all members. Metrics of a task have no entry in TAGS."""
    if (own := split_member_name(name)) is not None:
        return f"{_tag(own[1])}/member {own[0]}"
    if name.startswith(TRAIN):
        return f"train/{name.removeprefix(TRAIN)}"
    if name.startswith(NET):
        return f"net/{name.removeprefix(NET)}"
    return TAGS.get(name) or f"validation/{name.removeprefix(PREFIX)}"
