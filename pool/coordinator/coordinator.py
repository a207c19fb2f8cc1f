"""The coordinator process, from start to end: messages go to the inbox, the scheduler's
decisions to the executor.

The only process that changes weights (I3). State that only it has is in its snapshots and checkpoints (I9).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace

import torch
import zmq

from pool import _native, numerics
from pool.checkpoint.schedule import Schedule
from pool.checkpoint.state import FOLDER
from pool.checkpoint.validations import Goal
from pool.checkpoint.writer import CheckpointWriter
from pool.coordinator.bad_batches import BadBatches
from pool.coordinator.checkpoints import Checkpoints
from pool.coordinator.exchange_setup.exchanges import Exchanges, devices_of
from pool.coordinator.exchange_setup.workers_memory import WorkersMemory
from pool.coordinator.executor import Executor
from pool.coordinator.first_steps import FirstStepsRecord
from pool.coordinator.history import History
from pool.coordinator.metrics.metrics import Metrics, Traffic
from pool.coordinator.models import Models
from pool.coordinator.other_machines import OtherMachines
from pool.coordinator.scheduler.inbox import Inbox
from pool.coordinator.scheduler.rules import Rules
from pool.coordinator.scheduler.scheduler import StepScheduler
from pool.coordinator.snapshots import Snapshots
from pool.coordinator.state import State
from pool.coordinator.step_record import StepRecord
from pool.coordinator.update.stopwatch import Stopwatch
from pool.coordinator.validation_arrays import ValidationArrays
from pool.crash_points import crash_point
from pool.device.startup import naming_lost_devices
from pool.ensemble.factory import make_members
from pool.exchange.device.store import LentMemory
from pool.exchange.layout import member_of_bucket
from pool.metrics.medians import median_of
from pool.nets.record import still_to_export
from pool.optim.plateau import plateau_rule
from pool.process.start import CoordinatorStart
from pool.protocol.channel import LINGER_MS, Hub, Link
from pool.protocol.identity import SUPERVISOR, Peer
from pool.protocol.messages import Hello, NetNews, Notice, Roster
from pool.protocol.resend import SAY_AGAIN_MS, SayAgain
from pool.run_folder.access import shown
from pool.shm.memory import Memory
from pool.task.factory import metrics_of
from pool.telemetry.trace import Trace

REPORT_SECONDS = 0.2


def begin(start: CoordinatorStart, lent: Future[LentMemory] | None = None) -> Callable[[], None]:
    """`lent`: in a process that plays the only worker, too, gets the memory of the device that this uses."""
    names, devices = start.exchange.devices, devices_of(start)
    if not names:
        return Coordinator(start, devices).run
    with naming_lost_devices(*names, devices=devices):
        coordinator = Coordinator(start, devices, lent)
    return naming_lost_devices(*names, devices=devices)(coordinator.run)


class Coordinator:
    def __init__(
        self, start: CoordinatorStart, devices: Sequence[torch.device], lent: Future[LentMemory] | None = None
    ) -> None:
        """`devices`: what this process calls those of the exchange."""
        config = start.config
        torch.set_num_threads(config.num_coordinator_threads)
        numerics.check_coordinator(start.fingerprint, start.peer)
        _native.keep_freed_memory()  # an optimizer allocates the same memory in every step
        self._context = zmq.Context[zmq.Socket[bytes]]()
        self._supervisor = Link(self._context, start.address_key, start.peer, Peer(SUPERVISOR), os.getppid())
        self._hub = Hub(self._context, start.address_key, start.peer)
        samples = config.train.batches_per_step * config.data.batch_size
        self._trace = Trace(start.run_dir, start.peer, on=start.traced)
        self._metrics = Metrics(
            start.run_dir, start.step, config.train.steps, samples, self._say, sinks=config.run.sinks
        )
        memory = Memory(start.memory, start.segments)
        self._shortcut = memory.coordinator_end(start.peer, start.bells)
        stopwatch = Stopwatch(self._metrics, self._trace)
        layout, configs = start.layout, config.members
        members = list(make_members([config.net for config in configs], layout.plans))
        numerics.check_members(start.fingerprint, start.peer, members, start.config.pool.dense_products)
        self._exchanges = Exchanges(start, memory, self._shortcut, devices, lent)
        numerics.check_steps_on(start.fingerprint, start.peer, devices)
        models = Models(configs, members, layout.plans, self._exchanges.members, stopwatch)
        snapshots = Snapshots(
            memory.snapshots(), start.snapshot, changes=models.changes, threads=config.num_coordinator_threads
        )
        goal = Goal(config.train.best_metric, start.measured.best(config.train.best_metric))
        self._state = State(start, memory, models, snapshots, goal, self._say)
        self._next_report = 0.0
        self._checkpoints = Checkpoints(
            snapshots,
            CheckpointWriter(
                start.run_dir / FOLDER,
                config.train.keep_checkpoints,
                config.train.keep_every,
                still_to_export(start.run_dir, config.train.export_every),
            ),
            Schedule(
                config.train.checkpoint_every,
                start.saved,
                seconds=60 * config.train.checkpoint_minutes,
                nets=config.train.export_every,
                snapshots=config.pool.snapshot_steps,
                now=time.monotonic(),
            ),
            goal=goal,
            state=self._state.checkpoint,
            say=self._say,
            meanwhile=self._report,
            copies=self._exchanges.copies,
            together=start.place is not None,
        )
        self._checkpoints.resume(start.step, self._state.begin())
        rules = _rules(start, goal)
        self._scheduler = StepScheduler(
            rules,
            start.step,
            start.cursor,
            incarnation=start.peer.incarnation,
            known=self._checkpoints.validations,
            plateaus=self._state.plateaus,
            frozen=models.frozen,
            unused=self._state.unused,
            deaths=start.deaths,
        )
        self._machines = machines = self._join(start, rules)
        self._machine_timeout = config.pool.machine_timeout
        self._history = _history(start, models)
        self._executor = Executor(
            self._scheduler,
            models,
            self._state,
            StepRecord(
                self._metrics,
                self._checkpoints,
                self._trace,
                ValidationArrays(
                    [metrics_of(member.task, layout.schema) for member in members],
                    start.measured,
                    validation=start.validation,
                    place=memory.collected,
                ),
                self._history,
                FirstStepsRecord(start.run_dir, config.model_dump(mode="json"), models.weights),
                first_step=start.step,
                traffic=lambda: Traffic(models.read_nbytes, None if machines is None else machines.sent_nbytes),
            ),
            BadBatches(start, memory, self._say),
            self._hub,
            stopwatch,
            self._say,
            self._machines,
        )
        self._executor.act(self._scheduler.begin())
        self._inbox = Inbox(self._scheduler, WorkersMemory(memory, self._shortcut), self._metrics.worker)
        self._nets = NetNews()
        self._waits_for_nets = False

    def _join(self, start: CoordinatorStart, rules: Rules) -> OtherMachines | None:
        """Gets ready for the other machines, if there are any."""
        if start.place is None:
            return None
        assert self._exchanges.others is not None
        return OtherMachines(self._context, start.place, start.layout, rules.share, self._exchanges.others)

    def run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._supervisor.socket, zmq.POLLIN)
        poller.register(self._hub.socket, zmq.POLLIN)
        poller.register(self._checkpoints.fileno(), zmq.POLLIN)
        poller.register(self._shortcut.bell.fileno(), zmq.POLLIN)
        if self._exchanges.lender is not None:
            poller.register(self._exchanges.lender.fileno(), zmq.POLLIN)
        if self._machines is not None:
            self._machines.hub.watch(poller)
        crash_point("coordinator.before_hello")
        self._supervisor.send(Hello(os.getpid()))
        crash_point("coordinator.after_hello")
        if self._machines is not None:
            self._report()  # where it is reached: the others wait for that
        again = SayAgain()
        while not self._finished():
            waits = self._scheduler.waits_for_machines
            with self._metrics.measured("waiting_for_machines") if waits else nullcontext():
                events = dict(poller.poll(SAY_AGAIN_MS))
            if self._shortcut.bell.fileno() in events:
                self._look()
            self._hear(events)
            self._hear_machines()
            if self._exchanges.lender is not None:
                self._exchanges.lender.hear()
            self._checkpoints.hear()
            if again.due() and not self._executor.at_end:
                self._executor.act(self._scheduler.say_again())
            self._report()
        self._checkpoints.tidy()
        crash_point("coordinator.before_finished")
        self._report(finished=True)
        crash_point("coordinator.after_finished")
        self._metrics.close()
        if self._history is not None:
            self._history.close()
        self._hub.close()
        if self._machines is not None:
            self._machines.hub.close(LINGER_MS)
        self._supervisor.close()
        self._context.term()  # waits until the last messages are sent

    def _finished(self) -> bool:
        """Sees to the last checkpoint, and then waits for what is left to do with nets."""
        saved = self._executor.at_end and self._checkpoints.finish(self._scheduler.step)
        if saved and self._machines is not None:
            saved = self._machines.all_end(self._scheduler.step)
        self._waits_for_nets = saved and self._nets.settled < self._checkpoints.exported
        return saved and not self._waits_for_nets and self._metrics.finish()

    def _say(self, text: str) -> None:
        """To the run's user."""
        self._supervisor.send(Notice(shown(text)))

    def _hear(self, events: Mapping[object, int]) -> None:
        if self._supervisor.socket in events:
            for message in self._supervisor.receive():
                if isinstance(message, Roster):
                    self._nets = message.nets
                    self._metrics.tried(message.nets.numbers)
                    if self._machines is not None:
                        self._machines.connect(message.machines)
                    if self._exchanges.lender is not None:
                        self._exchanges.lender.alive(message.pids())
                    actions = self._inbox.roster(message)
                    self._hub.set_alive({p: pid for p, pid in message.pids().items() if p in self._inbox.alive})
                    self._executor.act(actions)
        # before the first roster no peer is known; messages wait in the socket
        if self._inbox.alive and self._hub.socket in events:
            for peer, received in self._hub.receive():
                if peer not in self._inbox.joined:
                    crash_point("coordinator.joined")
                self._executor.act(self._inbox.message(peer, received))

    def _hear_machines(self) -> None:
        if self._machines is None:
            return
        self._machines.hub.look()
        if self._scheduler.waits_for_machines:
            line = self._machines.name_unconnected(time.monotonic(), self._machine_timeout)
            if line:
                self._say(line)
        else:
            self._machines.forget_unconnected()
        for actions, decided in self._machines.receive(self._scheduler):
            if decided is not None:
                self._checkpoints.decided(*decided)
            self._executor.act(actions)

    def _look(self) -> None:
        """Rung when a batch is finished."""
        self._shortcut.bell.silence()
        self._trace.mark("bell heard")
        crash_point("coordinator.bell_heard")
        self._executor.act(self._inbox.bell())

    def _report(self, *, finished: bool = False) -> None:
        now = time.monotonic()
        if finished or now >= self._next_report:
            self._next_report = now + REPORT_SECONDS
            checkpoints, machines = self._checkpoints, self._machines
            report = self._metrics.report(
                self._scheduler.step,
                checkpoints.saved,
                self._state.epoch,
                median_of(self._state.learning_rates),
                checkpoints.best_on_disk,
                checkpoints.goal.metric,
            )
            report = replace(
                report,
                finished=finished,
                waits_for_disk=checkpoints.waits or self._metrics.waits,
                unwritten=self._metrics.unwritten,
                waits_for_nets=self._waits_for_nets,
                address="" if machines is None else machines.hub.address,
                stopped_elsewhere=self._scheduler.stopped_elsewhere,
            )
            self._supervisor.send(report)


def _history(start: CoordinatorStart, models: Models) -> History | None:
    if not start.config.testing.history:
        return None
    return History(start.run_dir, start.peer.incarnation, start.step, models.newest)


def _rules(start: CoordinatorStart, goal: Goal) -> Rules:
    config = start.config
    plans = start.layout.plans
    return Rules(
        steps=config.train.steps,
        batches_per_step=config.train.batches_per_step,
        member_of=member_of_bucket(plans),
        gradient_slots=config.pool.gradient_slots,
        has_buffers=bool(plans[0].buffers),
        validate_every=config.validate_every,
        validation=start.validation,
        on_bad_batch=config.train.on_bad_batch,
        collects=start.measured.collects,
        batches_per_group=config.train.batches_per_group,
        goal=goal,
        early_stopping=config.train.early_stopping,
        plateaus=tuple(plateau_rule(member, start.measured) for member in config.members),
        machines=1 if start.place is None else start.place.machines,
        machine=0 if start.place is None else start.place.machine,
        metrics_every=config.train.metrics_every,
        metrics=tuple(name for name, _ in start.measured.metrics),
    )
