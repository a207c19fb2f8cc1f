"""The main loop of the coordinator, the process that adds up gradients and changes the weights.

Messages from the other processes go to the inbox, which turns them into events for the scheduler. The executor carries
out the scheduler's decisions. No other process changes weights (I3). Snapshots and checkpoints hold all state that only
this process has (I9).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
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
from pool.protocol.messages import BucketSums, Hello, NetsStatus, Roster
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
        poller = self._create_poller()
        self._greet_supervisor()
        resend_timer = ResendTimer()
        while not self._is_finished():
            self._handle_events(self._wait_for_events(poller))
            if resend_timer.due() and not self.executor.is_at_end:
                self.executor.execute(self.scheduler.resend_orders())
            self.report()
        self.checkpoints.remove_exported()
        crash_point("coordinator.before_finished")
        self.report(finished=True)
        crash_point("coordinator.after_finished")
        self._close()

    def _create_poller(self) -> zmq.Poller:
        """Creates the poller of all sockets and file descriptors that wake the loop up."""
        poller = zmq.Poller()
        poller.register(self.supervisor.socket, zmq.POLLIN)
        poller.register(self.hub.socket, zmq.POLLIN)
        poller.register(self.checkpoints.fileno(), zmq.POLLIN)
        poller.register(self.shortcut.own_signal.fileno(), zmq.POLLIN)
        if self.exchanges.memory_exporter is not None:
            poller.register(self.exchanges.memory_exporter.fileno(), zmq.POLLIN)
        if self.machines is not None:
            self.machines.hub.watch(poller)
        return poller

    def _greet_supervisor(self) -> None:
        """Tells the supervisor that this process has started."""
        crash_point("coordinator.before_hello")
        self.supervisor.send(Hello(os.getpid()))
        crash_point("coordinator.after_hello")
        if self.machines is not None:
            self.report()  # this machine's address, which the other coordinators wait for

    def _wait_for_events(self, poller: zmq.Poller) -> dict[object, int]:
        """Returns the sockets and file descriptors that are readable, as soon as there is one, or after a while. Counts
        the time as waiting for other machines if the step waits for nothing else."""
        if not self.scheduler.waits_for_machines:
            return dict(poller.poll(RESEND_MS))
        with self.metrics.measured("waiting_for_machines"):
            return dict(poller.poll(RESEND_MS))

    def _handle_events(self, events: Mapping[object, int]) -> None:
        """Handles all messages and signals that have arrived. `events`: what is readable."""
        if self.shortcut.own_signal.fileno() in events:
            self._handle_worker_signal()
        if self.supervisor.socket in events:
            for message in self.supervisor.receive():
                if isinstance(message, Roster):
                    self._handle_roster(message)
        # before the first roster no peer is known; messages wait in the socket
        if self.inbox.alive and self.hub.socket in events:
            self._handle_peers()
        if self.machines is not None:
            self._handle_machines(self.machines)
        if self.exchanges.memory_exporter is not None:
            self.exchanges.memory_exporter.accept_workers()
        self.checkpoints.handle_ended()

    def _handle_worker_signal(self) -> None:
        """Reads which batches the workers have finished. Called when a worker has set the signal in shared memory."""
        self.shortcut.own_signal.clear()
        self.trace.mark("bell heard")
        crash_point("coordinator.bell_heard")
        self.executor.execute(self.inbox.handle_signal())

    def _handle_roster(self, roster: Roster) -> None:
        """Handles the supervisor's list of living processes, exported nets and other machines."""
        self._nets = roster.nets
        self.metrics.add_net_results(roster.nets.numbers)
        if self.machines is not None:
            self.machines.connect(roster.machines)
        pids = roster.pids()
        if self.exchanges.memory_exporter is not None:
            self.exchanges.memory_exporter.update_workers(pids)
        actions = self.inbox.handle_roster(roster)
        self.hub.set_alive({peer: pid for peer, pid in pids.items() if peer in self.inbox.alive})
        self.executor.execute(actions)

    def _handle_peers(self) -> None:
        """Receives the messages of the feeder and the workers, and acts on them."""
        for peer, message in self.hub.receive():
            if peer not in self.inbox.joined:
                crash_point("coordinator.joined")
            self.executor.execute(self.inbox.handle_message(peer, message))

    def _handle_machines(self, machines: OtherMachines) -> None:
        """Receives the messages of other machines' coordinators and acts on them. While a step waits for other
        machines, tells the user of those that can't be reached. Raises RunError if that lasts longer than
        `machine_timeout`."""
        machines.hub.poll_connections()
        if self.scheduler.waits_for_machines:
            warning = machines.describe_unconnected(time.monotonic(), self.machine_timeout)
            if warning:
                self.notify(warning)
        else:
            machines.reset_unconnected()
        for peer, message in machines.receive(self.scheduler):
            if isinstance(message, BucketSums):
                actions = self.scheduler.on_partial_sum(peer.index, message.step, message.bucket)
            else:
                if peer.index == 0:  # the first machine decides for all
                    self.checkpoints.record_decision(message.step + 1, message.saves)
                actions = self.scheduler.on_share_report(peer.index, message)
            self.executor.execute(actions)

    def _is_finished(self) -> bool:
        """Returns True when the run is over and everything is saved. Called once in each turn of the loop.

        After the last step it waits in turn for the final checkpoint, for the other machines, for the nets that are
        exported from checkpoints, and for the lines of metrics.jsonl.
        """
        step = self.scheduler.step
        is_saved = self.executor.is_at_end and self.checkpoints.finish(step)
        if is_saved and self.machines is not None:
            is_saved = self.machines.announce_end(step)
        self._waits_for_nets = is_saved and self._nets.settled < self.checkpoints.exported_step
        return is_saved and not self._waits_for_nets and self.metrics.finish()

    def report(self, *, finished: bool = False) -> None:
        """Sends the supervisor a report of the run's progress, at most once in REPORT_SECONDS; with `finished`, at
        once."""
        now = time.monotonic()
        if not finished and now < self._next_report:
            return
        self._next_report = now + REPORT_SECONDS
        checkpoints = self.checkpoints
        report = self.metrics.report(
            self.scheduler.step,
            checkpoints.saved_step,
            self.state.epoch,
            median_of(self.state.learning_rates),
            checkpoints.best_on_disk,
            checkpoints.goal.metric,
        )
        report = replace(
            report,
            finished=finished,
            waits_for_disk=checkpoints.waits_for_disk or self.metrics.waits_for_disk,
            unwritten=self.metrics.unwritten,
            waits_for_nets=self._waits_for_nets,
            address="" if self.machines is None else self.machines.hub.address,
            stopped_elsewhere=self.scheduler.stopped_elsewhere,
        )
        self.supervisor.send(report)

    def _close(self) -> None:
        """Closes all files and sockets. Waits until the last messages are sent."""
        self.metrics.close()
        if self.history is not None:
            self.history.close()
        self.hub.close()
        if self.machines is not None:
            self.machines.hub.close(LINGER_MS)
        self.supervisor.close()
        self.context.term()  # waits until the last messages are sent
