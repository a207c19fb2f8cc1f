"""Runs the supervisor's loop: starts the other processes, watches and restarts them, shows the run, ends it.

The supervisor owns the run's shared memory (I6). It sees a death by the process's pidfd, not by silence. It tells all
processes which ones are alive by a roster. It never imports torch.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace

import zmq

from loader.exit_codes import EXIT_CRASH_LOOP, EXIT_DONE
from pool.checkpoint.state import LAST
from pool.crash_points import crash_point
from pool.device.names import parse_device
from pool.errors import ConfigError, RunError
from pool.machines.group import MachineGroup
from pool.protocol.channel import Hub
from pool.protocol.identity import COORDINATOR, FEEDER, FORKSERVER, SUPERVISOR, WORKER, Peer
from pool.protocol.messages import (
    Heartbeat,
    Hello,
    LeftOutData,
    Notice,
    Roster,
    RosterEntry,
    RunReport,
    UntrainedFeatures,
)
from pool.protocol.resend import SAY_AGAIN_MS, SAY_AGAIN_SECONDS, SayAgain
from pool.shm.memory import read_newest_version
from pool.supervisor.death_log import DeathLog
from pool.supervisor.deaths import Death, with_death
from pool.supervisor.failover import go_on, steps_to_begin_with
from pool.supervisor.listeners import Action, EndRun, KillCoordinator, Listener, SendRoster, StartCoordinator
from pool.supervisor.lost_devices import LostDevices
from pool.supervisor.machine_watch import MachineWatch
from pool.supervisor.notices import Notices
from pool.supervisor.numbered_nets import NumberedNets
from pool.supervisor.policy import Decision, RestartPolicy
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.process_state import Patience
from pool.supervisor.process_table import ProcessTable
from pool.supervisor.processes.child import Child
from pool.supervisor.processes.children import Children
from pool.supervisor.processes.forkserver import ForkServer
from pool.supervisor.resources.logs import log_into
from pool.supervisor.resources.run_folder import RunFolder
from pool.supervisor.resources.run_memory import RunMemory
from pool.supervisor.resources.signals import StopSignals
from pool.supervisor.slow_loader import SlowLoader
from pool.supervisor.stop_plan import Ending, StopPlan
from pool.supervisor.summary import unsaved_line
from pool.supervisor.systemd import ServiceManager
from pool.telemetry.progress import ProgressLine
from pool.telemetry.prometheus import Exporter

log = logging.getLogger(__name__)

LAST_WORDS_SECONDS = 1.0  # to wait for messages that a dead coordinator has sent
KILL_SECONDS = 5.0  # between SIGTERM and SIGKILL for a child
# nobody has proved that memory of a device outlives the process that made it
MEMORY_GONE = "shared a device's memory with the coordinator"


class Supervisor:
    """Starts, watches and restarts the processes of one run."""

    def __init__(
        self,
        run: RunPlan,
        memory: RunMemory,
        forkserver: ForkServer,
        folder: RunFolder,
        signals: StopSignals,
        progress: ProgressLine,
        group: MachineGroup | None = None,
    ) -> None:
        """Takes over the run's memory, which `end_all` closes, and the fork server. Raises OSError.

        `group`: connection to the other machines of the run, or None.
        """
        self._run = run
        self._folder = folder
        self._signals = signals
        self._progress = progress
        self._context = zmq.Context[zmq.Socket[bytes]]()
        self._poller = zmq.Poller()
        self._memory = memory
        guests = {guest: Peer(COORDINATOR) for guest in run.guests(Peer(COORDINATOR))}
        self._children = Children(memory, folder.logs, self._poller, forkserver, guests)
        self._hub = Hub(self._context, run.address_key, Peer(SUPERVISOR))
        self._poller.register(self._hub.socket, zmq.POLLIN)
        self._poller.register(signals.fileno(), zmq.POLLIN)
        self._death_log = DeathLog(self._children)
        self._notices = Notices(run.config.data, progress.say)
        pool = run.config.pool
        workers = {Peer(WORKER, index) for index in range(len(run.planned.devices))} - guests.keys()
        self._processes = ProcessTable(
            forkserver.peer,
            (Peer(COORDINATOR), Peer(FEEDER), *sorted(workers)),
            Patience(pool.hang_timeout, pool.start_timeout),
            SAY_AGAIN_SECONDS,
            time.monotonic(),
            guests=guests,
        )
        names = {index: parse_device(spec).torch_name for index, spec in enumerate(run.planned.devices)}
        self._lost = LostDevices(names)
        self._policy = RestartPolicy(pool.restarts, self._lost)
        self._stop = StopPlan(pool.stop_timeout)
        self._service = ServiceManager()
        self._exporter = Exporter(run.config.telemetry.prometheus, str(folder.path), progress.say)
        self._nets = NumberedNets(run, folder, self._poller, progress.say)
        self._machines: MachineWatch | None = None
        if group is not None:
            group.watch(self._poller)
            self._machines = MachineWatch(group, pool.machine_timeout, progress.say)
        self._listeners: list[Listener] = [
            listener for listener in (self._nets, self._machines) if listener is not None
        ]
        self._loader = SlowLoader(run.decoding_threads)
        self.last_report: RunReport | None = None
        self.left_out = self._notices.left_out

    def run(self) -> int:
        """Starts all processes, then handles events until the coordinator has finished or the run is stopped.

        Returns the exit code. Raises PoolError if the run can't go on.
        """
        crash_point("supervisor.memory_reserved")
        self._start_due()
        again = SayAgain()
        while True:
            events = dict(self._poller.poll(self._pause_ms()))
            self._hear()
            if self._hear_signals() is Ending.NOW:
                return self._signals.exit_code
            self._hear_forkserver(events)
            for child in self._children.dead(events):
                if self._handle_death(child):
                    return self._exit_code
            for action in (action for listener in self._listeners for action in listener.hear(events)):
                if action == EndRun():
                    return self._exit_code
                self._act(action)
            self._start_due()
            self._kill_stuck()
            if again.due():
                self._look_at_folder()
                self._send_roster()
                self._children.reap_strays(self._nets.pids)

    def end_all(self) -> None:
        """Ends every child process: sends SIGTERM, waits, sends SIGKILL. Frees the run's memory. Nothing of the run is
        left then."""
        self._stop_listeners()
        for number in (signal.SIGTERM, signal.SIGKILL):
            self._children.send_signal(number)
            deadline = time.monotonic() + KILL_SECONDS
            while list(self._children) and time.monotonic() < deadline and self._signals.count < 3:
                events = dict(self._poller.poll(100))
                self._hear()  # a child that ends waits until its last messages are received
                for child in self._children.dead(events):
                    self._children.forget(child)
        self._exporter.close()
        self._hub.close()
        self._context.destroy(linger=0)
        self._memory.close()

    def unsaved(self) -> str:
        """Returns a line about a run that ends early: the steps that a resumed run does again. Empty if there are
        none."""
        done = read_newest_version(self._memory.segments, self._memory.sizes)
        return unsaved_line(done, max(0, self._folder.linked_step(LAST)))

    # --- starting ---

    def _start_due(self) -> None:
        """Starts the processes whose pause is over, one at a time. The fork server is started by exec, others are
        forked by it."""
        while (peer := self._processes.next_start(time.monotonic())) is not None:
            if peer.role == FORKSERVER:
                self._children.start_forkserver(peer, self._run.config)
                self._processes.started(peer, time.monotonic())
            else:
                crash_point("supervisor.before_start")
                self._children.ask_for(peer)
                self._processes.asked(peer, time.monotonic())

    def _hear_forkserver(self, events: Mapping[object, int]) -> None:
        """Handles an answer of the fork server: that it is ready, or the process that it has forked, which gets its
        settings."""
        child = self._children.hear(events)
        if child is None:
            return
        self._processes.answered(time.monotonic())
        if child.peer.role == FORKSERVER:
            return
        crash_point("supervisor.after_start")
        self._processes.started(child.peer, time.monotonic())
        if self._policy.is_left_out(child.peer):
            child.kill("is on a device that was lost meanwhile")
        else:
            for peer in (child.peer, *self._run.guests(child.peer)):
                self._children.tell(self._run.start_of(peer))
        self._send_roster()

    def _pause_ms(self) -> int:
        """Returns the milliseconds to wait for events until the next process has to be started or the roster has to be
        resent."""
        return min(SAY_AGAIN_MS, int(1000 * self._processes.pause(time.monotonic(), SAY_AGAIN_SECONDS)) + 1)

    def _send_roster(self) -> None:
        """Sends all living processes the roster: which processes are alive, and whether to finish and end."""
        processes = [child for child in self._children if child.peer.role != FORKSERVER]
        living = {peer: child.pid for child in processes for peer in (child.peer, *self._run.guests(child.peer))}
        self._hub.set_alive(living)
        entries = tuple(RosterEntry(peer.role, peer.index, peer.incarnation, pid) for peer, pid in living.items())
        others = () if self._machines is None else self._machines.coordinators
        has_missed = self._machines is not None and bool(self._machines.missed)
        drain = self._stop.ending is not Ending.NOT_ASKED or has_missed
        roster = Roster(entries, drain, self._nets.news, others)
        crash_point("supervisor.before_roster")
        for peer in living:
            self._hub.send(peer, roster)

    # --- listening ---

    def _hear_signals(self) -> Ending:
        """Begins to stop the run if a signal has asked for it. Returns how far the run's end has come."""
        self._signals.drain()
        waits = self.last_report is not None and self.last_report.waits_for_disk
        line = self._stop.signals(self._signals.count, time.monotonic(), waits=waits)
        if line:
            self._progress.say(line)
        if line and self._stop.ending is not Ending.NOW:
            self._service.stopping()
            self._stop_listeners()
            self._send_roster()
        return self._stop.ending

    def _stop_listeners(self) -> None:
        for listener in self._listeners:
            listener.stop()

    def _hear(self) -> None:
        """Receives and handles the messages of all processes."""
        for peer, message in self._hub.receive():
            if isinstance(message, Hello):
                crash_point("supervisor.ready_heard")
                self._processes.beat(peer, 0.0, time.monotonic())
                self._send_roster()
            elif isinstance(message, Heartbeat):
                self._processes.beat(peer, message.still, time.monotonic())
            elif isinstance(message, Notice | LeftOutData | UntrainedFeatures):
                self._notices.hear(peer, message)
            elif isinstance(message, RunReport) and peer.role == COORDINATOR:
                self._processes.beat(peer, 0.0, time.monotonic())
                crash_point("supervisor.report_heard")
                self._hear_report(message)

    def _hear_report(self, report: RunReport) -> None:
        """Passes the coordinator's report on to all that follow the run's progress, and shows it."""
        self.last_report = report
        self._policy.progress(report.step)
        self._service.progress(report)
        self._exporter.take(report, self._death_log.count_roles())
        for listener in self._listeners:
            listener.report(report)
        if slow := self._loader.report(report):
            log.warning("%s", slow)
            self._progress.say(slow)
        self._progress.show(report)

    # --- deaths ---

    def _handle_death(self, child: Child) -> bool:
        """Restarts a process that has died, or decides to go on without it. Returns whether the run has finished.

        Raises RunError if the run can't go on.
        """
        peer = child.peer
        self._look_at_folder()
        how = self._children.forget(child)
        self._processes.died(peer, how, time.monotonic())
        if peer.role == COORDINATOR and child.returncode == 0:
            self._wait_until(self._is_finished, LAST_WORDS_SECONDS)
        if peer.role == COORDINATOR and self._is_finished():
            return not self._wait_for_machines(peer, "it has finished", finished=True)
        failure = child.failure  # `forget` has read it
        if failure is not None and not failure.signature and not failure.lost:
            raise RunError(with_death(failure.reason, self._death_log.deaths), failure.exit_code)
        death = self._death_log.add(self._run, child, how)
        needed = peer.role != FORKSERVER or self._processes.somebody_waits
        decision = self._policy.died(peer, failure, batch=death.batch, needed=needed)
        log.warning("%s; %s", death.line(), decision.why)
        if decision.leave_out:
            self._progress.say(f"{death.line()}; {decision.why}")
            self._leave_device(self._lost.of_worker[peer.index])
            self._send_roster()
        elif not decision.restart:
            raise self._death_log.error(decision.why, decision.exit_code)
        elif peer.role == COORDINATOR:
            self._restart_coordinator(peer, death, decision)
        else:
            self._show_restart(death, decision.why)
            self._processes.again(peer, time.monotonic() + decision.pause, decision.why)
            self._start_due()
        return False

    def _restart_coordinator(self, coordinator: Peer, death: Death, decision: Decision) -> None:
        """Starts the coordinator's successor now, or on several machines when the other machines are ready too."""
        self._kill_workers(self._run.planned.exchange.workers_on_devices, MEMORY_GONE)
        moved = self._move_exchange()
        self._show_restart(death, f"{decision.why}; {self._run.planned.exchange}" if moved else decision.why)
        self._run = replace(self._run, deaths=self._death_log.in_batches(self._run.deaths, self._policy.done))
        if self._wait_for_machines(coordinator, decision.why):
            return
        self._go_on(self._processes.again(coordinator, time.monotonic() + decision.pause, decision.why))
        self._start_due()

    def _show_restart(self, death: Death, why: str) -> None:
        self._progress.say(f"{death.line()}; {why}")
        self._folder.restarted()
        self._send_roster()

    def _go_on(self, coordinator: Peer, step: int | None = None) -> None:
        """Prepares the run for the dead coordinator's successor.

        `step`: on which the machines have agreed; None: the newest step in memory or in a checkpoint.
        """
        self._run = go_on(self._run, self._folder, coordinator, self._memory.segments, step)
        self._say_notes()
        self._progress.say(f"the run goes on from step {self._run.step}")

    # --- what the listeners decide ---

    def _act(self, action: Action) -> None:
        """Carries out an action that a listener has decided."""
        match action:
            case SendRoster():
                self._send_roster()
            case KillCoordinator(why):
                self._kill_coordinator(why)
            case StartCoordinator():
                self._run = replace(self._run, place=action.place)
                self.last_report = None
                self._go_on(self._processes.again(action.predecessor, time.monotonic(), action.why), action.step)

    def _wait_for_machines(self, coordinator: Peer, why: str, *, finished: bool = False) -> bool:
        """Reports the coordinator's death to the other machines. Returns whether its successor has to wait for them."""
        if self._machines is None or not self._machines.has_group:
            return False
        steps = steps_to_begin_with(self._folder, self._memory.segments)
        self._say_notes()
        self._machines.coordinator_ended(coordinator, why, steps, self._folder.checkpoint_steps(), finished=finished)
        return True

    @property
    def _exit_code(self) -> int:
        """Returns the exit code of a run that has finished or was stopped."""
        if self._stop.ending is not Ending.NOT_ASKED:
            return self._signals.exit_code
        if self._machines is not None and self._machines.missed:
            return EXIT_CRASH_LOOP
        report = self.last_report
        return EXIT_CRASH_LOOP if report is not None and report.stopped_elsewhere else EXIT_DONE

    def _leave_device(self, device: str) -> None:
        """Kills the processes that use a device which is lost."""
        self._kill_workers(self._lost.workers_on(device), "is on a device that is lost")
        if device not in self._run.planned.exchange.devices or self._kill_coordinator(f"uses {device}, which is lost"):
            return
        if self._move_exchange():  # before the coordinator's successor begins
            self._progress.say(str(self._run.planned.exchange))

    def _move_exchange(self) -> bool:
        """Chooses other devices for the exchange (sums and weights) if the run has left out some of its devices.

        Must be called while there is no coordinator. Returns whether the exchange was changed.
        """
        planned = self._run.planned
        exchange = self._lost.exchange_without_lost(planned.exchange)
        if exchange is planned.exchange:
            return False
        others = set(exchange.workers_on_devices).difference(planned.exchange.workers_on_devices)
        self._kill_workers(others, "gets the coordinator on its device")
        self._run = replace(self._run, answer=replace(planned, exchange=exchange))
        return True

    def _kill_workers(self, indices: Collection[int], why: str) -> None:
        for child in self._children:
            if child.peer.role == WORKER and child.peer.index in indices:
                self._kill(child, why)

    def _kill_coordinator(self, why: str) -> bool:
        """Kills the coordinator. Returns whether there was one."""
        coordinator = next((child for child in self._children if child.peer.role == COORDINATOR), None)
        if coordinator is not None:
            self._kill(coordinator, why)
        return coordinator is not None

    def _kill(self, child: Child, why: str) -> None:
        """Kills a process for a reason that is not its fault, so the death does not count against it."""
        self._policy.ended(child.peer)
        child.kill(why)

    def _look_at_folder(self) -> None:
        """Restores a run folder that was deleted, and gives it to all processes."""
        if self._folder.look():
            self._children.give_folder(self._folder.fd)
            log_into(self._folder.logs)
            with suppress(ConfigError):
                self._folder.record(self._run.config, self._run.overrides)
        self._say_notes()

    def _say_notes(self) -> None:
        for note in self._folder.take_notes():
            log.warning("%s", note)
            self._progress.say(note)

    def _kill_stuck(self) -> None:
        """Kills processes that are silent or don't advance. What they own is given away only when their death is seen
        (I4)."""
        for stuck in self._processes.stuck(time.monotonic()):
            self._progress.say(f"{stuck.peer} {stuck.why}; killing it")
            self._children[stuck.peer].kill(stuck.why)

    def _is_finished(self) -> bool:
        """Tells whether the coordinator has reported that it has finished."""
        return self.last_report is not None and self.last_report.finished

    def _wait_until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Receives messages until a condition is met, at most `seconds`."""
        deadline = time.monotonic() + seconds
        while not condition() and time.monotonic() < deadline:
            self._poller.poll(50)
            self._hear()
