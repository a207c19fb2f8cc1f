"""Settings of a run that the coordinator's books need; they never change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Rules:
    steps: int
    batches_per_step: int
    num_buckets: int
    gradient_slots: int  # of each worker
    has_buffers: bool
    validate_every: int  # steps; 0: never
    validation_batches: int
    on_bad_batch: Literal["stop", "skip"] = "stop"
    collects: bool = False  # workers leave arrays for metrics with each validation batch
