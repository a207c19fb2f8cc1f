"""The main loop of the coordinator, the process that adds up gradients and changes the weights.

Messages from the other processes go to the inbox, which turns them into events for the scheduler. The executor carries
out the scheduler's decisions. No other process changes weights (I3). Snapshots and checkpoints hold all state that only
this process has (I9).
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
from pool.protocol.messages import Hello, NetsStatus, Roster
from pool.protocol.resend import RESEND_MS, ResendTimer
from pool.shm.signals import CoordinatorSignals
from pool.telemetry.trace import Trace

REPORT_SECONDS = 0.2


@dataclass(eq=False)
class Coordinator:
    """Runs the coordinator's loop. `pool.coordinator.assembly` makes the parts that it is given here."""

    context: zmq.Context[Any]
    supervisor: Link
    hub: Hub  # to workers and feeder
    shortcut: CoordinatorSignals  # shared memory in which workers report finished batches
    exchanges: Exchanges
    metrics: Metrics
    trace: Trace
    state: State
    checkpoints: Checkpoints
    scheduler: StepScheduler
    executor: Executor
    inbox: Inbox
    machines: OtherMachines | None  # the coordinators that compute each step with this one; None: there are none
    machine_timeout: float  # seconds that another machine may be unreachable before the run ends
    history: History | None
    notify: Callable[[str], object]  # sends a line to the run's user
    _next_report: float = field(default=0.0, init=False)
    _nets: NetsStatus = field(default_factory=NetsStatus, init=False)
    _waits_for_nets: bool = field(default=False, init=False)

    def run(self) -> None:
        """Handles messages and signals until the run is over, then closes all files and sockets.

        Returns when the last checkpoint, all metrics and the last report have been written or sent.
        """
        poller = zmq.Poller()
        poller.register(self.supervisor.socket, zmq.POLLIN)
        poller.register(self.hub.socket, zmq.POLLIN)
        poller.register(self.checkpoints.fileno(), zmq.POLLIN)
        poller.register(self.shortcut.own_signal.fileno(), zmq.POLLIN)
        if self.exchanges.memory_exporter is not None:
            poller.register(self.exchanges.memory_exporter.fileno(), zmq.POLLIN)
        if self.machines is not None:
            self.machines.hub.watch(poller)
        crash_point("coordinator.before_hello")
        self.supervisor.send(Hello(os.getpid()))
        crash_point("coordinator.after_hello")
        if self.machines is not None:
            self.report()  # this machine's address, which the other coordinators wait for
        again = ResendTimer()
        while not self._finished():
            waits = self.scheduler.waits_for_machines
            with self.metrics.measured("waiting_for_machines") if waits else nullcontext():
                events = dict(poller.poll(RESEND_MS))
            if self.shortcut.own_signal.fileno() in events:
                self._look()
            self._hear(events)
            self._hear_machines()
            if self.exchanges.memory_exporter is not None:
                self.exchanges.memory_exporter.accept_workers()
            self.checkpoints.hear()
            if again.due() and not self.executor.at_end:
                self.executor.act(self.scheduler.resend_orders())
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
        """Returns True when the run is over and everything is saved. Called once in each turn of the loop.

        After the last step it waits in turn for the final checkpoint, for the other machines, for the nets that are
        exported from checkpoints, and for the lines of metrics.jsonl.
        """
        saved = self.executor.at_end and self.checkpoints.finish(self.scheduler.step)
        if saved and self.machines is not None:
            saved = self.machines.all_end(self.scheduler.step)
        self._waits_for_nets = saved and self._nets.settled < self.checkpoints.exported
        return saved and not self._waits_for_nets and self.metrics.finish()

    def _hear(self, events: Mapping[object, int]) -> None:
        """Receives the messages of the supervisor, the feeder and the workers, and acts on them. `events`: the sockets
        that are readable."""
        if self.supervisor.socket in events:
            for message in self.supervisor.receive():
                if isinstance(message, Roster):
                    self._nets = message.nets
                    self.metrics.tried(message.nets.numbers)
                    if self.machines is not None:
                        self.machines.connect(message.machines)
                    if self.exchanges.memory_exporter is not None:
                        self.exchanges.memory_exporter.update_workers(message.pids())
                    actions = self.inbox.handle_roster(message)
                    self.hub.set_alive({p: pid for p, pid in message.pids().items() if p in self.inbox.alive})
                    self.executor.act(actions)
        # before the first roster no peer is known; messages wait in the socket
        if self.inbox.alive and self.hub.socket in events:
            for peer, received in self.hub.receive():
                if peer not in self.inbox.joined:
                    crash_point("coordinator.joined")
                self.executor.act(self.inbox.handle_message(peer, received))

    def _hear_machines(self) -> None:
        """Receives the messages of other machines' coordinators and acts on them. While a step waits for other
        machines, tells the user of those that can't be reached. Raises RunError if that lasts longer than
        `machine_timeout`."""
        if self.machines is None:
            return
        self.machines.hub.look()
        if self.scheduler.waits_for_machines:
            line = self.machines.name_unconnected(time.monotonic(), self.machine_timeout)
            if line:
                self.notify(line)
        else:
            self.machines.forget_unconnected()
        for actions, decided in self.machines.receive(self.scheduler):
            if decided is not None:
                self.checkpoints.decided(*decided)
            self.executor.act(actions)

    def _look(self) -> None:
        """Reads which batches the workers have finished. Called when a worker has set the signal in shared memory."""
        self.shortcut.own_signal.clear()
        self.trace.mark("bell heard")
        crash_point("coordinator.bell_heard")
        self.executor.act(self.inbox.handle_signal())

    def report(self, *, finished: bool = False) -> None:
        """Sends the supervisor a report of the run's progress, at most once in REPORT_SECONDS; with `finished`, at
        once."""
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
