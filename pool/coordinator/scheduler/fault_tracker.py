"""Judges which batches can't be computed, by the deaths of the workers that held them. Pure.

A single death proves nothing, so a batch is bad when several workers have died while they held it. An exception of the
task's code is likely to come again, so a batch that raises in two incarnations is bad. If every batch is bad, the
cause is not the batches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from pool.protocol.blame import DeathInBatch, verdict
from pool.protocol.messages import Purpose

HOPELESS = 8  # batches of whole steps, one after the other, that were all left out: then it is not the data


class FaultTracker:
    """The faults of the batches of the step in progress and the next."""

    def __init__(self, unused: Sequence[int]) -> None:
        """`unused`: of each member: batches of the steps before this one that were left out whole."""
        self._deaths: defaultdict[tuple[Purpose, int, int], list[DeathInBatch]] = defaultdict(list)
        self._unused = list(unused)

    def ended(self, death: DeathInBatch) -> None:
        self._deaths[death.key].append(death)

    def verdict(self, purpose: Purpose, step: int, batch: int) -> str:
        """Why the batch can't be computed; empty if it may be tried again."""
        return verdict(self._deaths.get((purpose, step, batch), ()))

    @property
    def unused(self) -> tuple[int, ...]:
        return tuple(self._unused)

    def hopeless(self, member: int, batches: int) -> bool:
        """Asked when the last of the `batches` of a member's step is about to be left out."""
        return self._unused[member] + batches >= HOPELESS

    def committed(self, step: int, left_out: Sequence[int]) -> None:
        """A step is done; `left_out`: of each member: how many batches it lost, if that is all of them, else 0."""
        self._unused = [before + now if now else 0 for before, now in zip(self._unused, left_out, strict=True)]
        for key in [key for key in self._deaths if key[1] <= step]:
            del self._deaths[key]
