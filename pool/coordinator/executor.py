"""Carries out the actions that the scheduler decides on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from pool.coordinator.bad_batches import BadBatches
from pool.coordinator.models import Models
from pool.coordinator.other_machines import OtherMachines
from pool.coordinator.scheduler.actions import (
    AbortRun,
    Action,
    AnnounceShare,
    BadBatch,
    CollectArrays,
    Commit,
    CopyBuffers,
    EndRun,
    FinishValidation,
    Freeze,
    Notify,
    OrderFeeder,
    OrderWorker,
    Reduce,
    ReduceRates,
    SaveValidation,
    SendPartialSum,
    Update,
)
from pool.coordinator.scheduler.scheduler import StepScheduler
from pool.coordinator.state import State
from pool.coordinator.step_record import StepRecord
from pool.coordinator.update.stopwatch import Stopwatch
from pool.crash_points import crash_point
from pool.errors import RunError
from pool.protocol.channel import Hub

CHANGES_NOTHING = (OrderWorker, OrderFeeder, CollectArrays)  # actions after which the state is as before


class Executor:
    """Carries out one action after the other.

    Before an action that changes the state, what still has to be saved of the newest version is saved. Orders do not
    wait for that.
    """

    def __init__(
        self,
        scheduler: StepScheduler,
        models: Models,
        state: State,
        record: StepRecord,
        bad_batches: BadBatches,
        hub: Hub,
        stopwatch: Stopwatch,
        notify: Callable[[str], object],
        machines: OtherMachines | None,
    ) -> None:
        """`notify`: shows the run's user a line; `machines`: the others that compute each step with this one."""
        self._scheduler = scheduler
        self._models = models
        self._state = state
        self._record = record
        self._bad_batches = bad_batches
        self._hub = hub
        self._stopwatch = stopwatch
        self._notify = notify
        self._machines = machines
        self._pending = deque[Action]()
        self.is_at_end = False

    def execute(self, actions: Iterable[Action]) -> None:
        """Carries out the actions in their order, then those that follow from them.

        Raises RunError, CheckpointError, PluginError, and whatever a metric of a user's own raises.
        """
        self._pending += actions
        while self._pending:
            action = self._pending.popleft()
            if not isinstance(action, CHANGES_NOTHING):
                self._finish_version()
            self._execute_action(action)
            self._record.write_history(action)
        self._finish_version()

    def _execute_action(self, action: Action) -> None:
        match action:
            case OrderWorker():
                self._models.wait_until_read()  # the worker may now write slots that early sums still read (I4)
                self._send_orders(action)
            case OrderFeeder():
                self._send_orders(action)
            case CollectArrays():
                self._record.collect_arrays(action)
            case Reduce():
                self._models.buckets[action.bucket].reduce(action)
            case Update():
                self._models.buckets[action.bucket].update(action)
            case CopyBuffers():
                self._models.members[action.member].copy_buffers(action)
            case Freeze():
                self._models.members[action.member].freeze(action.step)
            case AnnounceShare():
                self._announce(action)
            case SendPartialSum():
                assert self._machines is not None
                self._machines.send_partial_sum(action.step, action.bucket, self._models.partial_sums(action.bucket))
            case BadBatch():
                self._bad_batches.handle(action)
            case Commit():
                self._commit(action)
            case FinishValidation():
                self._pending += self._scheduler.on_validation(self._record.finish_validation(action))
            case ReduceRates():
                self._state.reduce_rates(action)
            case SaveValidation():
                self._state.on_validation(action)
                self._record.on_validation(action)
            case Notify():
                self._notify(action.text)
            case AbortRun():
                raise RunError(action.reason)
            case EndRun():
                self.is_at_end = True

    def _announce(self, action: AnnounceShare) -> None:
        """Sends the other machines what this machine's batches of a step have come to, and what will be saved of it."""
        assert self._machines is not None
        report, version, checkpoints = action.report, action.report.step + 1, self._record.checkpoints
        state = checkpoints.state_sum
        if state is not None and state.step == report.step:
            report = replace(report, state=state)
        if self._machines.is_first:
            report = replace(report, saves=checkpoints.decide(version))
            checkpoints.record_decision(version, report.saves)
        self._machines.announce(report, self._models.buffers(version) if self._machines.has_first_batch else ())

    def _commit(self, action: Commit) -> None:
        """Publishes version step + 1 of the weights, then records the step."""
        learning_rates = self._state.learning_rates
        with self._stopwatch.committing(action.step):
            self._models.commit(action.step)  # steps optimizers that need the gradients of all buckets
            self._models.publish(action.step + 1)
            crash_point("coordinator.after_publish")
        if action.is_validated_next:
            self._models.publish_averages()
        if self._machines is not None:
            self._machines.on_commit(action.step)
        self._state.on_commit(action)
        self._record.on_commit(action, learning_rates)

    def _finish_version(self) -> None:
        """Does what follows from the newest version once the workers know of it, and before anything changes it."""
        self._models.update_averages()
        self._models.copy_early()
        self._record.finish_commit()

    def _send_orders(self, action: OrderWorker | OrderFeeder) -> None:
        crash_point("coordinator.before_orders")
        self._hub.send(action.peer, action.orders)
        crash_point("coordinator.after_orders")
