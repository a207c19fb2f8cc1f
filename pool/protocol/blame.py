"""Counts deaths of workers by the batch that they were computing, to find batches that can't be computed.

Coordinators keep these deaths, and the supervisor hands them on to a restarted coordinator.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pool.protocol.messages import Purpose

MAX_DEATHS = 3  # this many deaths of workers that were computing a batch make the batch bad
MAX_EXCEPTIONS = 2  # this many exceptions of the task's code, in different processes, make the batch bad


@dataclass(frozen=True)
class DeathInBatch:
    """Records that a worker died while it computed a batch."""

    purpose: Purpose
    step: int
    batch: int
    raised: str  # the exception that ended it; empty if none did

    @property
    def key(self) -> tuple[Purpose, int, int]:
        """Returns what identifies the batch: purpose, step, batch number."""
        return self.purpose, self.step, self.batch


def reason_unusable(deaths: Collection[DeathInBatch]) -> str:
    """Returns the reason not to compute a batch again after these deaths of workers, or an empty string if it may be
    computed again."""
    exceptions = [death.raised for death in deaths if death.raised]
    if len(exceptions) >= MAX_EXCEPTIONS:
        return f"it failed {MAX_EXCEPTIONS} times, in different processes: {exceptions[-1]}"
    num_without_exception = len(deaths) - len(exceptions)
    if num_without_exception >= MAX_DEATHS:
        return f"{MAX_DEATHS} workers died while they held it"
    return ""
