"""Carries out what the books decide: adds up, steps, commits, sends, records. Where the actions touch the world.

Holds the weights and all that a checkpoint has of them (I9).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from loader.errors import DataError
from loader.schema import SparseBatch
from loader.sources import origin_of
from loader.stream import Cursor
from pool import _native
from pool.buckets.plan import Plan
from pool.checkpoint import store
from pool.checkpoint.state import FOLDER, describe_files
from pool.checkpoint.validations import NONE, Validation, Validations, comparable
from pool.checkpoint.writer import CheckpointWriter
from pool.coordinator import poison
from pool.coordinator.actions import (
    Action,
    BadBatch,
    Commit,
    End,
    Fold,
    GiveUp,
    OrderFeeder,
    OrderWorker,
    TakeBuffers,
    Update,
    Validated,
)
from pool.coordinator.checkpoints import Checkpoints
from pool.coordinator.committer import Committer
from pool.coordinator.history import History
from pool.coordinator.metrics import Metrics
from pool.coordinator.snapshots import Snapshots
from pool.crash_points import crash_point
from pool.errors import RunError
from pool.launch import Launch
from pool.optim.adam import Touched
from pool.protocol.channel import Hub
from pool.run_dir import shown
from pool.shm.memory import Memory
from pool.shm.shortcut import CoordinatorEnd
from pool.tasks.making import make_task
from pool.telemetry.trace import Trace

log = logging.getLogger(__name__)


class Execution:
    def __init__(
        self,
        launch: Launch,
        memory: Memory,
        metrics: Metrics,
        hub: Hub,
        shortcut: CoordinatorEnd,
        trace: Trace,
        say: Callable[[str], object],
    ) -> None:
        """Makes or loads the weights. `say`: to the user."""
        config = launch.config
        self._launch = launch
        self._memory = memory
        self._metrics = metrics
        self._hub = hub
        self._shortcut = shortcut
        self._trace = trace
        self._say = say
        self._schema, plan = launch.planned()
        self._committer = self._make_committer(plan)
        self._cursor = launch.start
        self._snapshots = Snapshots(memory.snapshots(), launch.snapshot)
        restored = self._restore_or_initialize()
        self.checkpoints = Checkpoints(
            self._snapshots,
            CheckpointWriter(launch.run_dir / FOLDER, config.train.keep_checkpoints, config.train.keep_every),
            validations=NONE if restored is None else self._validations(restored, say),
            snapshot_every=config.pool.snapshot_steps,
            checkpoint_every=config.train.checkpoint_every,
            saved=launch.saved,
            state=self._state,
            say=say,
        )
        self.checkpoints.resume(launch.step)
        self._history: History | None = None
        if config.testing.history:
            self._history = History(launch.run_dir, launch.peer.incarnation, launch.step, self._committer.newest)
        self._unrecorded: tuple[Commit, float] | None = None  # and the learning rate that it was made with
        self.at_end = False

    @property
    def epoch(self) -> int:
        """That the next step begins in."""
        return self._cursor.epoch

    @property
    def learning_rate(self) -> float:
        """Of the next step."""
        return self._committer.optimizers.learning_rate

    def act(self, actions: list[Action]) -> None:
        """Carries them out in order; a commit is recorded when those who wait for it have been told."""
        for action in actions:
            if not isinstance(action, OrderWorker | OrderFeeder):
                self._record_commit()
            self._carry_out(action)
            if self._history is not None:
                self._history.done(action)
        self._record_commit()

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, Fold):
            with self._metrics.measured("reducing"), self._trace.span("reduce", step=action.step, bucket=action.bucket):
                self._committer.fold(action)
        elif isinstance(action, Update):
            if action.fold is not None and not self._committer.steps_in_one_pass(action):
                self._carry_out(action.fold)
            with (
                self._metrics.measured("optimizing"),
                self._trace.span("optimize", step=action.step, bucket=action.bucket),
            ):
                self._committer.update(action)
        elif isinstance(action, BadBatch):
            self._bad_batch(action)
        elif isinstance(action, TakeBuffers):
            self._committer.take_buffers(action)
        elif isinstance(action, Commit):
            self._commit(action)
        elif isinstance(action, Validated):
            self._metrics.validated(action.version, action.loss)
            self.checkpoints.validated(Validation(action.version, action.loss))
        elif isinstance(action, OrderWorker | OrderFeeder):
            crash_point("coordinator.before_orders")
            self._hub.send(action.peer, action.orders)
            crash_point("coordinator.after_orders")
        elif isinstance(action, GiveUp):
            raise RunError(action.why)
        elif isinstance(action, End):
            self.at_end = True

    def _bad_batch(self, action: BadBatch) -> None:
        """Keeps what may be needed to find out why, and ends the run unless the config says otherwise."""
        batch = SparseBatch.view(self._schema, self._memory.batch_slot("train", action.batch))
        text = f"batch {action.batch} of step {action.step}: {action.why}"
        try:
            text += f"; it is kept in {poison.save(self._launch.run_dir, batch, action, self._origin(action))}"
        except OSError as error:
            text += f"; it can't be kept: {error}"
        if action.fatal:
            stops = self._launch.config.train.on_bad_batch == "stop"
            raise RunError(text + ('; train.on_bad_batch = "skip" would leave it out' if stops else ""))
        log.warning("%s; it is left out", shown(text))
        self._say(f"{text}; it is left out")

    def _origin(self, action: BadBatch) -> Mapping[str, Any]:
        launch, cursor = self._launch, action.cursor
        try:
            return origin_of(
                self._launch.config.data,
                launch.train_files,
                self._launch.config.run.seed,
                Cursor(cursor.batch, cursor.epoch, cursor.window, cursor.entry),
            )
        except DataError as error:
            return {"unknown": str(error)}

    def _commit(self, action: Commit) -> None:
        learning_rate = self.learning_rate
        with self._metrics.measured("optimizing"), self._trace.span("commit", step=action.step):
            self._committer.commit(action.step)  # with clip_norm, all of the update
            self._shortcut.publish(action.step + 1)
            crash_point("coordinator.after_publish")
        self._override(action.step + 1)
        self._cursor = action.next_cursor
        self._unrecorded = action, learning_rate

    def _record_commit(self) -> None:
        """Before anything changes what was committed."""
        if self._unrecorded is None:
            return
        (commit, learning_rate), self._unrecorded = self._unrecorded, None
        crash_point("coordinator.before_record")
        self._metrics.committed(
            commit.step, commit.losses, commit.next_cursor.epoch, learning_rate, self._committer.gradient_nbytes
        )
        with self._trace.span("snapshot, if due", step=commit.step):
            self.checkpoints.committed(commit.step + 1, validated_next=commit.validated_next)
        if commit.step == self._launch.step:  # its first: all that stays is there now, optimizer state too
            _native.return_free_memory()  # weights that were loaded or drawn, pieces of optimizer state now joined

    # --- state ---

    def _state(self) -> store.Checkpoint:
        """All of it, between two steps."""
        tensors, plain = self._committer.optimizers.state()
        model = self._committer.model
        return store.Checkpoint(
            step=self._committer.version,
            cursor=self._cursor,
            config=self._launch.config.model_dump(mode="json"),
            fingerprint=self._launch.fingerprint,
            data=describe_files(self._launch.train_files),
            validation=describe_files(self._launch.validation_files),
            chunk_sums={purpose: words.copy() for purpose, words in self._memory.sums().items()},
            weights={**dict(model.named_parameters()), **dict(model.named_buffers())},
            optimizer=tensors,
            optimizer_plain=plain,
        )

    def _restore_or_initialize(self) -> store.Checkpoint | None:
        """What the run goes on from; None for a run that begins."""
        launch = self._launch
        restored = None
        if launch.snapshot is not None:
            restored = self._snapshots.load(launch.snapshot, self._state())
        elif launch.checkpoint is not None:
            restored = store.load(launch.checkpoint)
        if restored is not None:
            self._committer.restore(restored)
            self._override(launch.step)
        else:
            start = None if launch.start_from is None else store.load_weights(launch.start_from).tensors
            self._committer.initialize(start)
        self._committer.begin(launch.step)
        if restored is None and launch.start_from is not None:
            self._snapshots.take(self._state())  # from here on the other run's checkpoint may go
        self._shortcut.publish(launch.step)
        return restored

    def _validations(self, restored: store.Checkpoint, say: Callable[[str], object]) -> Validations:
        """What is known of them, if the next ones can be compared with it."""
        known = restored.validations
        if known == NONE or comparable(restored.config, self._launch.config.model_dump(mode="json")):
            return known
        say("validations measure something else now than before: the best checkpoint is chosen anew")
        return NONE

    def _override(self, step: int) -> None:
        """Before step `step`: what the user wants changed there, unless the state has been through it."""
        for override in self._launch.overrides:
            if override.step == step:
                self._committer.optimizers.override(override)

    def _make_committer(self, plan: Plan) -> Committer:
        config = self._launch.config
        gradient_slots = {
            (worker, slot): memory
            for worker in range(len(self._launch.devices))
            for slot, memory in enumerate(self._memory.gradient_slots(worker))
        }
        return Committer(
            config,
            make_task(config.task, config.model, config.loss),
            plan,
            halves=self._memory.weight_halves(),
            gradient_slots=gradient_slots,
            touched_rows=self._touched_rows,
        )

    def _touched_rows(self, batch: int, field: str) -> Touched:
        slot = self._memory.batch_slot("train", batch)
        return SparseBatch.view(self._schema, slot).sparse[field].touched
