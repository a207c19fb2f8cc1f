"""Carries out the actions that the books decide on."""

from __future__ import annotations

from collections.abc import Iterable

from pool.checkpoint.validations import Validation
from pool.coordinator.bad_batches import BadBatches
from pool.coordinator.models import Committer
from pool.coordinator.scheduler.actions import (
    Action,
    BadBatch,
    Collect,
    Commit,
    End,
    Fold,
    Freeze,
    GiveUp,
    Hands,
    OrderFeeder,
    OrderWorker,
    TakeBuffers,
    Update,
    Validated,
)
from pool.coordinator.state import State
from pool.coordinator.step_record import Record
from pool.coordinator.update.timing import Timing
from pool.coordinator.validation_arrays import Collected
from pool.crash_points import crash_point
from pool.errors import RunError
from pool.protocol.channel import Hub


class CoordinatorHands:
    """An action that changes the state records the step before it first; orders are sent before that."""

    def __init__(
        self,
        committer: Committer,
        state: State,
        record: Record,
        collected: Collected,
        bad_batches: BadBatches,
        hub: Hub,
        timing: Timing,
        history: Hands | None,
    ) -> None:
        """`history`: notes each action that is carried out."""
        self._committer = committer
        self._state = state
        self._record = record
        self._collected = collected
        self._validated: int | None = None
        self._bad_batches = bad_batches
        self._hub = hub
        self._timing = timing
        self._history = history
        self.at_end = False

    def act(self, actions: Iterable[Action]) -> None:
        """In their order. Raises RunError, CheckpointError."""
        for action in actions:
            action.carry_out(self)
            if self._history is not None:
                action.carry_out(self._history)
        self._settle()

    def fold(self, action: Fold) -> None:
        self._settle()
        self._committer.fold(action)

    def update(self, action: Update) -> None:
        self._settle()
        self._committer.update(action)

    def take_buffers(self, action: TakeBuffers) -> None:
        self._settle()
        self._committer.take_buffers(action)

    def commit(self, action: Commit) -> None:
        self._settle()
        learning_rates = self._state.learning_rates
        with self._timing.committing(action.step):
            self._committer.commit(action.step)  # with clip_norm, all of the update
            self._committer.publish(action.step + 1)
            crash_point("coordinator.after_publish")
        if action.validated_next:
            self._committer.show_averages()
        self._state.committed(action)
        self._record.committed(action, learning_rates)

    def freeze(self, action: Freeze) -> None:
        self._settle()
        self._committer.freeze(action)

    def bad_batch(self, action: BadBatch) -> None:
        self._settle()
        self._bad_batches.found(action)

    def collect(self, action: Collect) -> None:
        self._collected.take(action)

    def validated(self, action: Validated) -> None:
        self._settle()
        metrics = self._collected.values()
        found = [
            Validation(action.version, loss, {metric.name: metric.values[m] for metric in metrics})
            for m, loss in enumerate(action.losses)
        ]
        self._state.validated(found)
        self._record.validated(action, metrics, found)
        self._validated = action.version

    def take_validated(self) -> int | None:
        """The version that was validated, once; None if none was."""
        validated, self._validated = self._validated, None
        return validated

    def order_worker(self, action: OrderWorker) -> None:
        self._committer.settle()  # it may be ordered to write what was folded (I4)
        self._send(action)

    def order_feeder(self, action: OrderFeeder) -> None:
        self._send(action)

    def give_up(self, action: GiveUp) -> None:
        self._settle()
        raise RunError(action.why)

    def end(self, action: End) -> None:
        del action  # it has no fields
        self._settle()
        self.at_end = True

    def _settle(self) -> None:
        """What follows from the newest version once the workers know of it, and before anything changes it."""
        self._committer.average()
        self._committer.ahead()
        self._record.settle()

    def _send(self, action: OrderWorker | OrderFeeder) -> None:
        crash_point("coordinator.before_orders")
        self._hub.send(action.peer, action.orders)
        crash_point("coordinator.after_orders")
