"""The state of validations: when one is due, which worker computes which batch, and the results. Pure.

A validation is a pass over the first batches of the validation stream with one version of the weights. The step that
begins with this version waits for the validation and for its consequences (`finish`). All decisions follow from what
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

    def __init__(self, rules: Rules, generation: int, validations: Validations, plateaus: Sequence[Plateau]) -> None:
        """Creates the record of a run's validations. `validations`: their results so far. `plateaus`: for each member
        (network of an ensemble), the state of the rule that lowers the learning rate; empty if none has begun."""
        self._rules = rules
        self.validations = validations
        self._plateaus = list(plateaus) or [Plateau()] * rules.members
        self.ring = RingState(START, generation)
        self._workers: dict[int, int] = {}  # batch in work -> index of its worker
        self._losses: dict[int, tuple[float, ...]] = {}  # finished batch -> losses, one for each member

    def is_due(self, step: int) -> bool:
        """Returns True if version `step` of the weights has to be validated before its step begins."""
        every = self._rules.validate_every
        newest = self.validations.newest
        return (step % every == 0 or step == self._rules.steps) and (newest is None or newest.step < step)

    def unassigned(self) -> Iterator[int]:
        """Yields the batches that are in the ring, not computed and assigned to no worker."""
        for batch in range(self.ring.freed, min(self.ring.filled, self._rules.validation.batches)):
            if batch not in self._workers and batch not in self._losses:
                yield batch

    def assign(self, batch: int, worker: int) -> None:
        """Records which worker, by index, computes a validation batch."""
        self._workers[batch] = worker

    def remove_worker(self, worker: int) -> None:
        """Takes validation batches back from a dead worker, so that they are assigned again."""
        self._workers = {batch: index for batch, index in self._workers.items() if index != worker}

    def finish_batch(self, batch: int, losses: tuple[float, ...]) -> Iterator[CollectArrays]:
        """Records the losses of a validation batch, one for each member. Yields the action that collects the arrays
        that its worker has left for metrics. Ignores a batch that is not being computed."""
        worker = self._workers.pop(batch, None)
        if worker is None:
            return
        self._losses[batch] = losses
        if self._rules.collects:
            yield CollectArrays(batch, worker)

    def advance(self, step: int) -> Iterator[FinishValidation]:
        """Frees the ring slots of validation batches that are finished. When all are, yields the action that computes
        the validation's result, and begins the stream anew for the next validation."""
        num_done = self.ring.freed
        while num_done in self._losses:
            num_done += 1
        self.ring.free_below(num_done)
        if num_done < self._rules.validation.batches:
            return
        losses_of_members = zip(*(self._losses[batch] for batch in range(num_done)), strict=True)
        means = tuple(self._rules.validation.mean(losses) for losses in losses_of_members)
        self._losses.clear()
        self.ring.rewind(START)
        yield FinishValidation(step, means)

    def finish(self, validations: Sequence[Validation], training: Set[int]) -> Iterator[ReduceRates | SaveValidation]:
        """Records the result of a validation, one for each member (network of an ensemble). The version counts as
        validated from now on.

        Yields an action that lowers learning rates, if results of the members `training` have stopped improving, and an
        action that saves the new state.
        """
        self.validations = self.validations.with_results(validations, self._rules.goal)
        rules_on_plateau = {}
        for member, rule in enumerate(self._rules.plateaus):
            if rule is None or member not in training:
                continue
            diverged = self.validations.of_members[member].diverged_at is not None
            self._plateaus[member], is_due = rule.update(self._plateaus[member], validations[member], diverged=diverged)
            if is_due:
                rules_on_plateau[member] = rule
        if rules_on_plateau:
            yield ReduceRates(validations[0].step, rules_on_plateau)
        yield SaveValidation(self.validations, tuple(self._plateaus))
