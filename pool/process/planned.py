"""What a planner answers: what the supervisor can't know without torch, or why the run can't be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter

from loader.batch.schema import BatchSchema
from pool.buckets.plan import Plan
from pool.metrics.layout import Measured
from pool.protocol.messages import Purpose


@dataclass(frozen=True)
class Planned:
    """Fields as those of `Launch`."""

    schema: BatchSchema
    plan: Plan
    measured: Measured
    sizes: Mapping[Purpose, tuple[int, ...]]  # bytes of each file that are read
    num_chunks: Mapping[Purpose, int]
    devices: tuple[str, ...]
    device_names: tuple[str, ...]
    state_nbytes: int
    fingerprint: Mapping[str, str]


@dataclass(frozen=True)
class Refused:
    """The run can't be."""

    error: str  # one line for the user
    exit_code: int


Answer = Planned | Refused
ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)
