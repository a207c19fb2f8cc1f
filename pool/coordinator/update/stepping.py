"""The interface of a bucket's step. `choice` picks the implementation, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pool.coordinator.scheduler.actions import Fold, Update

Scale = Callable[[int], float]  # by how many batches are in the sum: what it is multiplied by


class Stepping(Protocol):
    """The step of one bucket: any number of `fold`, then one `update`."""

    def fold(self, action: Fold) -> None:
        """Adds up what is there early; nothing reads these contributions afterwards."""

    def update(self, action: Update) -> None:
        """The rest of the sum, and the bucket's next version unless that needs the gradients of other buckets."""
