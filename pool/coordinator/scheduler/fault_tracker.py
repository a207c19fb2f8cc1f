"""Decides which batches can't be computed, by the deaths of the workers that computed them. Pure.

A single death proves nothing, so a batch is bad when several workers have died while they held it. An exception of the
task's code is likely to come again, so a batch that raises one in two processes is bad. If every batch is bad, the
cause is not the batches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from pool.protocol.blame import DeathInBatch, verdict
from pool.protocol.messages import Purpose

MAX_UNUSABLE_BATCHES = 8  # batches in a row, of whole steps, that were all left out: the cause is then not the data


class FaultTracker:
    """Counts the deaths of workers by the batch that they computed, for the step in progress and the next, and for each
    member (network of an ensemble) the batches in a row that could not be used."""

    def __init__(self, unused: Sequence[int]) -> None:
        """Makes a tracker without deaths. `unused`: for each member (network of an ensemble), how many batches it has
        lost in the last steps if it has lost all of them, else 0."""
        self._deaths: defaultdict[tuple[Purpose, int, int], list[DeathInBatch]] = defaultdict(list)
        self._unused = list(unused)

    def ended(self, death: DeathInBatch) -> None:
        """Notes that a worker has died while it computed a batch."""
        self._deaths[death.key].append(death)

    def verdict(self, purpose: Purpose, step: int, batch: int) -> str:
        """Returns the reason why no worker can compute the batch, as the deaths of workers show it; empty if it may be
        tried again."""
        return verdict(self._deaths.get((purpose, step, batch), ()))

    @property
    def unused(self) -> tuple[int, ...]:
        """For each member (network of an ensemble), how many batches in a row of the last committed steps were left out
        for it."""
        return tuple(self._unused)

    def hopeless(self, member: int, batches: int) -> bool:
        """True if a member loses too many batches in a row when all of its step's `batches` are left out: then the data
        are not to blame. To be asked before the last of them is left out."""
        return self._unused[member] + batches >= MAX_UNUSABLE_BATCHES

    def committed(self, step: int, left_out: Sequence[int]) -> None:
        """Ends a step: forgets the deaths of workers in its batches, and counts lost batches. `left_out`: for each
        member, the number of its batches if all were left out of the step, else 0."""
        self._unused = [before + now if now else 0 for before, now in zip(self._unused, left_out, strict=True)]
        for key in [key for key in self._deaths if key[1] <= step]:
            del self._deaths[key]
