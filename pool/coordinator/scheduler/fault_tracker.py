"""Judges which batches can't be computed, by the deaths of the workers that held them. Pure.

A single death proves nothing, so a batch is bad when several workers have died while they held it. An exception of the
task's code is likely to come again, so a batch that raises in two incarnations is bad. If every batch is bad, the
cause is not the batches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from pool.protocol.messages import DeathInBatch

DEADLY = 3  # deaths of workers that held a batch, after which it is bad
RAISED = 2  # exceptions of the task's code in a batch, each in another incarnation, after which it is bad
HOPELESS = 8  # batches of whole steps, one after the other, that were all left out: then it is not the data

_Key = tuple[str, int, int]  # purpose, step, batch


class FaultTracker:
    """The faults of the batches of the step in progress and the next."""

    def __init__(self, unused: Sequence[int]) -> None:
        """`unused`: of each member: batches of the steps before this one that were left out whole."""
        self._deaths: dict[_Key, int] = {}
        self._raised: defaultdict[_Key, list[str]] = defaultdict(list)
        self._unused = list(unused)

    def ended(self, death: DeathInBatch) -> None:
        key = (death.purpose, death.step, death.batch)
        if death.raised:
            self._raised[key].append(death.raised)
        else:
            self._deaths[key] = self._deaths.get(key, 0) + 1

    def verdict(self, purpose: str, step: int, batch: int) -> str:
        """Why the batch can't be computed; empty if it may be tried again."""
        key = (purpose, step, batch)
        if len(self._raised.get(key, ())) >= RAISED:
            return f"it failed {RAISED} times, in different processes: {self._raised[key][-1]}"
        return f"{DEADLY} workers died while they held it" if self._deaths.get(key, 0) >= DEADLY else ""

    @property
    def unused(self) -> tuple[int, ...]:
        return tuple(self._unused)

    def hopeless(self, member: int, batches: int) -> bool:
        """Asked when the last of the `batches` of a member's step is about to be left out."""
        return self._unused[member] + batches >= HOPELESS

    def committed(self, step: int, left_out: Sequence[int]) -> None:
        """A step is done; `left_out`: of each member: how many batches it lost, if that is all of them, else 0."""
        self._unused = [before + now if now else 0 for before, now in zip(self._unused, left_out, strict=True)]
        self._deaths = {key: count for key, count in self._deaths.items() if key[1] > step}
        for key in [key for key in self._raised if key[1] <= step]:
            del self._raised[key]
