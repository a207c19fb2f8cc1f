"""The coordinator process, from start to end: hear events, ask the books, act.

The only one that changes weights (I3). What it alone knows is in its checkpoints (I9).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from typing import Any

import torch
import zmq

from loader.errors import DataError
from loader.schema import SparseBatch
from loader.sources import origin_of
from loader.stream import Cursor
from pool import _native, numerics
from pool.checkpoint import store
from pool.checkpoint.state import FOLDER, describe_files
from pool.checkpoint.writer import CheckpointWriter
from pool.config import coordinator_threads
from pool.coordinator import poison
from pool.coordinator.actions import (
    Action,
    BadBatch,
    Commit,
    End,
    Fold,
    OrderFeeder,
    OrderWorker,
    TakeBuffers,
    Update,
    Validated,
)
from pool.coordinator.books import Books
from pool.coordinator.checkpoints import Checkpoints
from pool.coordinator.committer import Committer
from pool.coordinator.history import History
from pool.coordinator.metrics import Metrics
from pool.coordinator.rules import Rules
from pool.coordinator.snapshots import Snapshots
from pool.crash_points import crash_point
from pool.errors import RunError
from pool.launch import Launch
from pool.optim.adam import Touched
from pool.protocol.again import SAY_AGAIN_MS, SayAgain
from pool.protocol.channel import Hub, Link
from pool.protocol.identity import FEEDER, SUPERVISOR, WORKER, Peer
from pool.protocol.messages import FeederReport, Hello, Message, Notice, Roster, WorkerReport
from pool.shm.memory import Memory
from pool.tasks.registry import task_module
from pool.telemetry.trace import Trace

log = logging.getLogger(__name__)

REPORT_SECONDS = 0.2


def run(launch: Launch) -> None:
    Coordinator(launch).run()


class Coordinator:
    def __init__(self, launch: Launch) -> None:
        config = launch.config
        torch.set_num_threads(coordinator_threads(config))
        numerics.check_coordinator(launch.fingerprint, launch.peer)
        _native.keep_freed_memory()  # what an optimizer allocates in a step it allocates again in the next
        self._context = context = zmq.Context[zmq.Socket[bytes]]()
        self._launch = launch
        self._trace = Trace(launch.run_dir, launch.peer, on=bool(config.run.trace))
        self._config = config
        self._supervisor = Link(context, launch.supervisor_socket, launch.peer, Peer(SUPERVISOR))
        self._hub = Hub(context, launch.coordinator_socket, launch.peer)
        self._alive: set[Peer] = set()
        self._joined: set[Peer] = set()
        self._schema, plan = launch.planned()
        self._memory = Memory(launch)
        task = task_module(config.task).create_task(config.model, config.loss)
        self._committer = Committer(
            config,
            task,
            plan,
            halves=self._memory.weight_halves(),
            gradient_slots={
                (worker, slot): memory
                for worker in range(len(launch.devices))
                for slot, memory in enumerate(self._memory.gradient_slots(worker))
            },
            touched_rows=self._touched_rows,
        )
        self._cursor = launch.start
        self._data = describe_files(launch.train_files)
        self._snapshots = Snapshots(self._memory.snapshots(), launch.snapshot)
        self._restore_or_initialize()
        rules = Rules(
            steps=config.train.steps,
            batches_per_step=config.train.batches_per_step,
            num_buckets=len(plan.buckets),
            gradient_slots=config.pool.gradient_slots,
            has_buffers=bool(plan.buffers),
            validate_every=config.train.validate_every if launch.validation_files else 0,
            validation_batches=config.train.validation_batches,
            on_bad_batch=config.train.on_bad_batch,
        )
        samples = config.train.batches_per_step * config.data.batch_size
        self._metrics = Metrics(launch.run_dir, launch.step, config.train.steps, samples)
        self._books = Books(
            rules,
            launch.step,
            launch.start,
            incarnation=launch.peer.incarnation,
            validated=self._metrics.validated_version,
        )
        self._checkpoints = Checkpoints(
            self._snapshots,
            CheckpointWriter(launch.run_dir / FOLDER, config.train.keep_checkpoints),
            snapshot_every=config.pool.snapshot_steps,
            checkpoint_every=config.train.checkpoint_every,
            saved=launch.saved,
            state=self._state,
            say=lambda text: self._supervisor.send(Notice(text)),
        )
        self._history: History | None = None
        if config.testing.history:
            self._history = History(launch.run_dir, launch.peer.incarnation, launch.step, self._committer.newest)
        self._unrecorded: tuple[Commit, float] | None = None  # and the learning rate that it was made with
        self._next_report = 0.0
        self._at_end = False

    def run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._supervisor.socket, zmq.POLLIN)
        poller.register(self._hub.socket, zmq.POLLIN)
        poller.register(self._checkpoints.fileno(), zmq.POLLIN)
        crash_point("coordinator.before_hello")
        self._supervisor.send(Hello(os.getpid()))
        crash_point("coordinator.after_hello")
        again = SayAgain()
        while not (self._at_end and self._checkpoints.finish(self._books.step)):
            poller.poll(SAY_AGAIN_MS)
            self._hear()
            self._checkpoints.hear()
            if again.due() and not self._at_end:
                self._act(self._books.say_again())
            self._report()
        crash_point("coordinator.before_finished")
        self._report(finished=True)
        crash_point("coordinator.after_finished")
        self._metrics.close()
        self._hub.close()
        self._supervisor.close()
        self._context.term()  # waits until the last words are out

    # --- events ---

    def _hear(self) -> None:
        for message in self._supervisor.receive():
            if isinstance(message, Roster):
                self._roster(message)
        if self._alive:  # before the first roster nobody is known, and whoever spoke is still heard later
            for peer, received in self._hub.receive():
                self._message(peer, received)

    def _roster(self, roster: Roster) -> None:
        alive = {Peer(e.role, e.index, e.incarnation): e.pid for e in roster.alive if e.role in (FEEDER, WORKER)}
        for peer in sorted(self._joined - alive.keys()):
            self._joined.remove(peer)
            if peer.role == FEEDER:
                self._act(self._books.feeder_lost(peer))
            else:
                self._act(self._books.worker_lost(peer, int(self._memory.in_work(peer.index)[0])))
        self._alive = set(alive)
        self._hub.set_alive(alive)
        self._act(self._books.roster({peer for peer in alive if peer.role == WORKER}))
        if roster.drain:
            self._act(self._books.drain())

    def _message(self, peer: Peer, message: Message) -> None:
        if peer not in self._joined:
            self._joined.add(peer)
            crash_point("coordinator.joined")
            self._act(self._books.feeder_joined(peer) if peer.role == FEEDER else self._books.worker_joined(peer))
        if isinstance(message, WorkerReport) and peer.role == WORKER:
            self._metrics.worker(peer.index, message)
            self._act(self._books.worker_report(peer, message))
        elif isinstance(message, FeederReport) and peer.role == FEEDER:
            self._act(self._books.feeder_report(peer, message))

    # --- actions ---

    def _act(self, actions: list[Action]) -> None:
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
        elif isinstance(action, OrderWorker | OrderFeeder):
            crash_point("coordinator.before_orders")
            self._hub.send(action.peer, action.orders)
            crash_point("coordinator.after_orders")
        elif isinstance(action, End):
            self._at_end = True

    def _bad_batch(self, action: BadBatch) -> None:
        """Keeps what may be needed to find out why, and ends the run unless the config says otherwise."""
        batch = SparseBatch.view(self._schema, self._memory.batch_slot("train", action.batch))
        text = f"batch {action.batch} of step {action.step}: {action.why}"
        try:
            text += f"; it is kept in {poison.save(self._launch.run_dir, batch, action, self._origin(action))}"
        except OSError as error:
            text += f"; it can't be kept: {error}"
        if action.fatal:
            raise RunError(f'{text}; train.on_bad_batch = "skip" would leave it out')
        log.warning("%s; it is left out", text)

    def _origin(self, action: BadBatch) -> Mapping[str, Any]:
        launch, cursor = self._launch, action.cursor
        try:
            return origin_of(
                self._config.data,
                launch.train_files,
                self._config.run.seed,
                Cursor(cursor.batch, cursor.epoch, cursor.window, cursor.entry),
            )
        except DataError as error:
            return {"unknown": str(error)}

    def _commit(self, action: Commit) -> None:
        learning_rate = self._committer.optimizers.learning_rate
        with self._metrics.measured("optimizing"), self._trace.span("commit", step=action.step):
            self._committer.commit(action.step)  # with clip_norm, all of the update
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
            self._checkpoints.committed(commit.step + 1)

    def _report(self, *, finished: bool = False) -> None:
        now = time.monotonic()
        if finished or now >= self._next_report:
            self._next_report = now + REPORT_SECONDS
            self._supervisor.send(
                self._metrics.report(
                    self._books.step,
                    self._checkpoints.saved,
                    self._cursor.epoch,
                    self._committer.optimizers.learning_rate,
                    finished=finished,
                )
            )

    # --- state ---

    def _state(self) -> store.Checkpoint:
        """All of it, between two steps."""
        tensors, plain = self._committer.optimizers.state()
        model = self._committer.model
        return store.Checkpoint(
            step=self._committer.version,
            cursor=self._cursor,
            config=self._config.model_dump(mode="json"),
            fingerprint=self._launch.fingerprint,
            data=self._data,
            weights={**dict(model.named_parameters()), **dict(model.named_buffers())},
            optimizer=tensors,
            optimizer_plain=plain,
        )

    def _restore_or_initialize(self) -> None:
        launch = self._launch
        if launch.snapshot is not None:
            self._committer.restore(self._snapshots.load(launch.snapshot, self._state()))
        elif launch.checkpoint is not None:
            self._committer.restore(store.load(launch.checkpoint))
        else:
            self._committer.initialize()
        self._committer.begin(launch.step)

    def _touched_rows(self, batch: int, field: str) -> Touched:
        slot = self._memory.batch_slot("train", batch)
        return SparseBatch.view(self._schema, slot).sparse[field].touched
