"""The state of validations: when one is due, which worker computes which batch, and the results. Pure.

A validation is a pass over the first batches of the validation stream with one version of the weights. The step that
begins with this version waits for the validation and for its consequences (`measured`). All decisions follow from what
checkpoints and snapshots hold (I9), so a successor and a resumed run decide the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from loader.stream.interface import Cursor
from pool.checkpoint.plateau import Plateau
from pool.checkpoint.validations import Validation, Validations
from pool.coordinator.scheduler.actions import CollectArrays, FinishValidation, ReduceRates, SaveValidation
from pool.coordinator.scheduler.ring import RingState
from pool.coordinator.scheduler.rules import Rules

START = Cursor()


class ValidationProgress:
    """Keeps the validation that is in progress, and the results of all before it."""

    def __init__(self, rules: Rules, generation: int, known: Validations, plateaus: Sequence[Plateau]) -> None:
        """Makes the record of a run's validations. `known`: results of the validations so far. `plateaus`: for each
        member (network of an ensemble), the state of the rule that lowers the learning rate; empty if none has
        begun."""
        self._rules = rules
        self.known = known
        self._plateaus = list(plateaus) or [Plateau()] * rules.members
        self.ring = RingState(START, generation)
        self._workers: dict[int, int] = {}  # batch in work -> index of its worker
        self._losses: dict[int, tuple[float, ...]] = {}  # finished batch -> losses, one for each member

    def due(self, step: int) -> bool:
        """True if version `step` of the weights has to be validated before its step begins."""
        every = self._rules.validate_every
        newest = self.known.newest
        return (step % every == 0 or step == self._rules.steps) and (newest is None or newest.step < step)

    def wanted(self) -> Iterator[int]:
        """Yields the batches that are in the ring and assigned to no worker."""
        for batch in range(self.ring.freed, min(self.ring.filled, self._rules.validation.batches)):
            if batch not in self._workers and batch not in self._losses:
                yield batch

    def assigned(self, batch: int, worker: int) -> None:
        """Notes which worker, by index, computes a validation batch."""
        self._workers[batch] = worker

    def worker_lost(self, worker: int) -> None:
        """Takes validation batches back from a dead worker, so that they are assigned again."""
        self._workers = {batch: index for batch, index in self._workers.items() if index != worker}

    def finished(self, batch: int, losses: tuple[float, ...]) -> Iterator[CollectArrays]:
        """Takes the losses of a validation batch, one for each member. Yields the action that collects the arrays that
        its worker has left for metrics. Ignores a batch that is not being computed."""
        worker = self._workers.pop(batch, None)
        if worker is None:
            return
        self._losses[batch] = losses
        if self._rules.collects:
            yield CollectArrays(batch, worker)

    def advance(self, step: int) -> Iterator[FinishValidation]:
        """Frees the ring slots of validation batches that are finished. When all are, yields the action that makes the
        validation's result, and begins the stream anew for the next validation."""
        done = self.ring.freed
        while done in self._losses:
            done += 1
        self.ring.free(done)
        if done == self._rules.validation.batches:
            losses = [self._losses[batch] for batch in range(done)]
            self._losses.clear()
            self.ring.rewind(START)
            yield FinishValidation(step, tuple(map(self._rules.validation.mean, zip(*losses, strict=True))))

    def measured(self, validations: Sequence[Validation], training: Set[int]) -> Iterator[ReduceRates | SaveValidation]:
        """Takes the result of a validation, one for each member (network of an ensemble). The version counts as
        validated from now on.

        Yields an action that lowers learning rates, if results of the members `training` have stopped improving, and an
        action that saves the new state.
        """
        self.known = self.known.after(validations, self._rules.goal)
        on_plateau = {}
        for member, rule in enumerate(self._rules.plateaus):
            if rule is not None and member in training:
                diverged = self.known.of_members[member].diverged_at is not None
                known, validation = self._plateaus[member], validations[member]
                self._plateaus[member], is_due = rule.after(known, validation, diverged=diverged)
                if is_due:
                    on_plateau[member] = rule
        if on_plateau:
            yield ReduceRates(validations[0].step, on_plateau)
        yield SaveValidation(self.known, tuple(self._plateaus))
