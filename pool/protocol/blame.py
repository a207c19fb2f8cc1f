"""Deaths of workers in batches: what coordinators know of them, and their successors are told."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pool.protocol.messages import Purpose

DEADLY = 3  # deaths of workers that held a batch, after which it is bad
RAISED = 2  # exceptions of the task's code in a batch, each in another incarnation, after which it is bad


@dataclass(frozen=True)
class DeathInBatch:
    """A worker died while it computed a batch."""

    purpose: Purpose
    step: int
    batch: int
    raised: str  # the exception that ended it; empty if none did

    @property
    def key(self) -> tuple[Purpose, int, int]:
        return self.purpose, self.step, self.batch


def verdict(deaths: Collection[DeathInBatch]) -> str:
    """Why a batch with these deaths can't be computed; empty if it may be tried again."""
    raised = [death.raised for death in deaths if death.raised]
    if len(raised) >= RAISED:
        return f"it failed {RAISED} times, in different processes: {raised[-1]}"
    return f"{DEADLY} workers died while they held it" if len(deaths) - len(raised) >= DEADLY else ""
