"""The state of validations: which version is due, which worker computes which batch, the result. Pure.

A validation is a pass over the first batches of the validation stream with one version of the weights; the step
that begins with this version waits for it, and for what is decided from its result (`judged`).
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from loader.stream.interface import Cursor
from pool.coordinator.scheduler.actions import Collect, Validated
from pool.coordinator.scheduler.ring import RingBook
from pool.coordinator.scheduler.rules import Rules

START = Cursor()


class ValidationBook:
    def __init__(self, rules: Rules, generation: int, validated: int) -> None:
        """`validated`: newest version with a validation on record, -1: none."""
        self._rules = rules
        self._validated = validated
        self._to_judge = False  # the result is out, and what follows from it is not known yet
        self.ring = RingBook(START, generation)
        self._workers: dict[int, int] = {}  # by batch in work
        self._losses: dict[int, tuple[float, ...]] = {}  # by batch, one a member

    def due(self, step: int) -> bool:
        """The weights of version `step` have to be validated before the step."""
        every = self._rules.validate_every
        return (step % every == 0 or step == self._rules.steps) and self._validated < step

    def wanted(self) -> Iterator[int]:
        """Batches that are ready and assigned to no worker."""
        for batch in range(self.ring.freed, min(self.ring.filled, self._rules.validation_batches)):
            if batch not in self._workers and batch not in self._losses:
                yield batch

    def assigned(self, batch: int, worker: int) -> None:
        self._workers[batch] = worker

    def worker_lost(self, worker: int) -> None:
        self._workers = {batch: index for batch, index in self._workers.items() if index != worker}

    def finished(self, batch: int, losses: tuple[float, ...]) -> Iterator[Collect]:
        worker = self._workers.pop(batch, None)
        if worker is None:
            return
        self._losses[batch] = losses
        if self._rules.collects:
            yield Collect(batch, worker)

    def advance(self, step: int) -> Iterator[Validated]:
        """Frees what is done with; the result when it is complete."""
        done = self.ring.freed
        while done in self._losses:
            done += 1
        self.ring.free(done)
        if done == self._rules.validation_batches:
            losses = [self._losses[batch] for batch in range(done)]
            self._to_judge = True
            self._losses.clear()
            self.ring.rewind(START)
            yield Validated(step, tuple(map(fmean, zip(*losses, strict=True))))

    def judged(self, version: int) -> None:
        """The run may go on from the version that was validated last."""
        assert self._to_judge, f"version {version} is not validated"
        self._to_judge = False
        self._validated = version
