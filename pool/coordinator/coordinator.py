"""The coordinator process at work: messages go to the inbox, the scheduler's decisions to the executor.

The only process that changes weights (I3). State that only it has is in its snapshots and checkpoints (I9).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import zmq

from pool.coordinator.checkpoints import Checkpoints
from pool.coordinator.exchange_setup.exchanges import Exchanges
from pool.coordinator.executor import Executor
from pool.coordinator.history import History
from pool.coordinator.metrics.metrics import Metrics
from pool.coordinator.other_machines import OtherMachines
from pool.coordinator.scheduler.inbox import Inbox
from pool.coordinator.scheduler.scheduler import StepScheduler
from pool.coordinator.state import State
from pool.crash_points import crash_point
from pool.metrics.medians import median_of
from pool.protocol.channel import LINGER_MS, Hub, Link
from pool.protocol.messages import Hello, NetNews, Roster
from pool.protocol.resend import SAY_AGAIN_MS, SayAgain
from pool.shm.signals import CoordinatorEnd
from pool.telemetry.trace import Trace

REPORT_SECONDS = 0.2


@dataclass(eq=False)
class Coordinator:
    """Runs the coordinator's loop. Its parts are made by `pool.coordinator.assembly`."""

    context: zmq.Context[Any]
    supervisor: Link
    hub: Hub  # to workers and feeder
    shortcut: CoordinatorEnd  # of memory in which workers finish batches
    exchanges: Exchanges
    metrics: Metrics
    trace: Trace
    state: State
    checkpoints: Checkpoints
    scheduler: StepScheduler
    executor: Executor
    inbox: Inbox
    machines: OtherMachines | None  # that compute each step with this one
    machine_timeout: float  # seconds
    history: History | None
    say: Callable[[str], object]  # sends a line to the run's user
    _next_report: float = field(default=0.0, init=False)
    _nets: NetNews = field(default_factory=NetNews, init=False)
    _waits_for_nets: bool = field(default=False, init=False)

    def run(self) -> None:
        poller = zmq.Poller()
        poller.register(self.supervisor.socket, zmq.POLLIN)
        poller.register(self.hub.socket, zmq.POLLIN)
        poller.register(self.checkpoints.fileno(), zmq.POLLIN)
        poller.register(self.shortcut.bell.fileno(), zmq.POLLIN)
        if self.exchanges.lender is not None:
            poller.register(self.exchanges.lender.fileno(), zmq.POLLIN)
        if self.machines is not None:
            self.machines.hub.watch(poller)
        crash_point("coordinator.before_hello")
        self.supervisor.send(Hello(os.getpid()))
        crash_point("coordinator.after_hello")
        if self.machines is not None:
            self.report()  # where it is reached: the others wait for that
        again = SayAgain()
        while not self._finished():
            waits = self.scheduler.waits_for_machines
            with self.metrics.measured("waiting_for_machines") if waits else nullcontext():
                events = dict(poller.poll(SAY_AGAIN_MS))
            if self.shortcut.bell.fileno() in events:
                self._look()
            self._hear(events)
            self._hear_machines()
            if self.exchanges.lender is not None:
                self.exchanges.lender.hear()
            self.checkpoints.hear()
            if again.due() and not self.executor.at_end:
                self.executor.act(self.scheduler.say_again())
            self.report()
        self.checkpoints.tidy()
        crash_point("coordinator.before_finished")
        self.report(finished=True)
        crash_point("coordinator.after_finished")
        self.metrics.close()
        if self.history is not None:
            self.history.close()
        self.hub.close()
        if self.machines is not None:
            self.machines.hub.close(LINGER_MS)
        self.supervisor.close()
        self.context.term()  # waits until the last messages are sent

    def _finished(self) -> bool:
        """Sees to the last checkpoint, and then waits for what is left to do with nets."""
        saved = self.executor.at_end and self.checkpoints.finish(self.scheduler.step)
        if saved and self.machines is not None:
            saved = self.machines.all_end(self.scheduler.step)
        self._waits_for_nets = saved and self._nets.settled < self.checkpoints.exported
        return saved and not self._waits_for_nets and self.metrics.finish()

    def _hear(self, events: Mapping[object, int]) -> None:
        if self.supervisor.socket in events:
            for message in self.supervisor.receive():
                if isinstance(message, Roster):
                    self._nets = message.nets
                    self.metrics.tried(message.nets.numbers)
                    if self.machines is not None:
                        self.machines.connect(message.machines)
                    if self.exchanges.lender is not None:
                        self.exchanges.lender.alive(message.pids())
                    actions = self.inbox.roster(message)
                    self.hub.set_alive({p: pid for p, pid in message.pids().items() if p in self.inbox.alive})
                    self.executor.act(actions)
        # before the first roster no peer is known; messages wait in the socket
        if self.inbox.alive and self.hub.socket in events:
            for peer, received in self.hub.receive():
                if peer not in self.inbox.joined:
                    crash_point("coordinator.joined")
                self.executor.act(self.inbox.message(peer, received))

    def _hear_machines(self) -> None:
        if self.machines is None:
            return
        self.machines.hub.look()
        if self.scheduler.waits_for_machines:
            line = self.machines.name_unconnected(time.monotonic(), self.machine_timeout)
            if line:
                self.say(line)
        else:
            self.machines.forget_unconnected()
        for actions, decided in self.machines.receive(self.scheduler):
            if decided is not None:
                self.checkpoints.decided(*decided)
            self.executor.act(actions)

    def _look(self) -> None:
        """Rung when a batch is finished."""
        self.shortcut.bell.silence()
        self.trace.mark("bell heard")
        crash_point("coordinator.bell_heard")
        self.executor.act(self.inbox.bell())

    def report(self, *, finished: bool = False) -> None:
        now = time.monotonic()
        if finished or now >= self._next_report:
            self._next_report = now + REPORT_SECONDS
            checkpoints, machines = self.checkpoints, self.machines
            report = self.metrics.report(
                self.scheduler.step,
                checkpoints.saved,
                self.state.epoch,
                median_of(self.state.learning_rates),
                checkpoints.best_on_disk,
                checkpoints.goal.metric,
            )
            report = replace(
                report,
                finished=finished,
                waits_for_disk=checkpoints.waits or self.metrics.waits,
                unwritten=self.metrics.unwritten,
                waits_for_nets=self._waits_for_nets,
                address="" if machines is None else machines.hub.address,
                stopped_elsewhere=self.scheduler.stopped_elsewhere,
            )
            self.supervisor.send(report)
