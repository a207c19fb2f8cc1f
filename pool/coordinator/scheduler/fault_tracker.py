"""Decides which batches can't be computed, by the deaths of the workers that computed them. Pure.

A single death proves nothing, so a batch is bad when several workers have died while they held it. An exception of the
task's code is likely to come again, so a batch that raises one in two processes is bad. If every batch is bad, the
cause is not the batches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from pool.protocol.blame import DeathInBatch, reason_unusable
from pool.protocol.messages import Purpose

MAX_UNUSABLE_BATCHES = 8  # in a row, of whole steps, that were all left out: the cause is then not the data


class FaultTracker:
    """Counts the deaths of workers by the batch that they computed, for the step in progress and the next, and for each
    member (network of an ensemble) the batches in a row that could not be used."""

    def __init__(self, unused: Sequence[int]) -> None:
        """Creates a tracker without deaths. `unused`: for each member (network of an ensemble), how many batches it has
        lost in the last steps if it has lost all of them, else 0."""
        self._deaths: defaultdict[tuple[Purpose, int, int], list[DeathInBatch]] = defaultdict(list)
        self._unused = list(unused)

    def add_death(self, death: DeathInBatch) -> None:
        """Records that a worker has died while it computed a batch."""
        self._deaths[death.key].append(death)

    def reason_unusable(self, purpose: Purpose, step: int, batch: int) -> str:
        """Returns why no worker can compute the batch, as the deaths of workers show it; empty if it may be tried
        again."""
        return reason_unusable(self._deaths.get((purpose, step, batch), ()))

    @property
    def unused(self) -> tuple[int, ...]:
        """For each member (network of an ensemble), how many batches in a row of the last committed steps were left out
        for it."""
        return tuple(self._unused)

    def is_hopeless(self, member: int, num_batches: int) -> bool:
        """Returns True if a member loses too many batches in a row when all `num_batches` of its step are left out. The
        data are then not to blame. To be called before the last of them is left out."""
        return self._unused[member] + num_batches >= MAX_UNUSABLE_BATCHES

    def end_step(self, step: int, num_lost: Sequence[int]) -> None:
        """Forgets the deaths of workers in batches of a step that is committed, and counts lost batches. `num_lost`:
        for each member, the number of its batches if all were left out of the step, else 0."""
        self._unused = [before + lost if lost else 0 for before, lost in zip(self._unused, num_lost, strict=True)]
        for key in list(self._deaths):
            _, step_of_death, _ = key
            if step_of_death <= step:
                del self._deaths[key]
