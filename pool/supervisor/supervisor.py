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
    Notice,
    Roster,
    RosterEntry,
    RunReport,
    SkippedDataReport,
    UntrainedFeatures,
)
from pool.protocol.resend import RESEND_MS, RESEND_SECONDS, ResendTimer
from pool.shm.memory import read_newest_version
from pool.supervisor.death_log import DeathLog
from pool.supervisor.deaths import Death, add_worker_death
from pool.supervisor.failover import plan_restart, resumable_steps
from pool.supervisor.listeners import Action, EndRun, KillCoordinator, Listener, SendRoster, StartCoordinator
from pool.supervisor.lost_devices import LostDevices
from pool.supervisor.machine_watch import MachineWatch
from pool.supervisor.notices import Notices
from pool.supervisor.numbered_nets import NumberedNets
from pool.supervisor.policy import Decision, RestartPolicy
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.process_state import Timeouts
from pool.supervisor.process_table import ProcessTable
from pool.supervisor.processes.child import Child
from pool.supervisor.processes.children import Children
from pool.supervisor.processes.forkserver import ForkServer
from pool.supervisor.resources.logs import log_to_folder
from pool.supervisor.resources.run_folder import RunFolder
from pool.supervisor.resources.run_memory import RunMemory
from pool.supervisor.resources.signals import StopSignals
from pool.supervisor.slow_loader import SlowLoader
from pool.supervisor.stop_plan import Ending, StopPlan
from pool.supervisor.summary import describe_unsaved_steps
from pool.supervisor.systemd import ServiceManager
from pool.telemetry.progress import ProgressLine
from pool.telemetry.prometheus import Exporter

log = logging.getLogger(__name__)

LAST_MESSAGES_SECONDS = 1.0  # to wait for messages that a dead coordinator has sent
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
            Timeouts(pool.hang_timeout, pool.start_timeout),
            RESEND_SECONDS,
            time.monotonic(),
            guests=guests,
        )
        names = {index: parse_device(spec).torch_name for index, spec in enumerate(run.planned.devices)}
        self._lost = LostDevices(names)
        self._policy = RestartPolicy(pool.restarts, self._lost)
        self._stop_plan = StopPlan(pool.stop_timeout)
        self._service = ServiceManager()
        self._exporter = Exporter(run.config.telemetry.prometheus, str(folder.path), progress.say)
        self._nets = NumberedNets(run, folder, self._poller, progress.say)
        self._machines: MachineWatch | None = None
        if group is not None:
            group.register(self._poller)
            self._machines = MachineWatch(group, pool.machine_timeout, progress.say)
        self._listeners: list[Listener] = [
            listener for listener in (self._nets, self._machines) if listener is not None
        ]
        self._slow_loader = SlowLoader(run.decoding_threads)
        self.last_report: RunReport | None = None
        self.skipped = self._notices.skipped

    def run(self) -> int:
        """Starts all processes, then handles events until the coordinator has finished or the run is stopped.

        Returns the exit code. Raises PoolError if the run can't go on.
        """
        crash_point("supervisor.memory_reserved")
        self._start_due()
        resend = ResendTimer()
        while True:
            events = dict(self._poller.poll(self._poll_ms()))
            self._receive_messages()
            if self._handle_signals() is Ending.NOW:
                return self._signals.exit_code
            self._handle_forkserver(events)
            for child in self._children.list_dead(events):
                has_finished = self._handle_death(child)
                if has_finished:
                    return self._exit_code
            for listener in self._listeners:
                for action in listener.poll(events):
                    if action == EndRun():
                        return self._exit_code
                    self._perform(action)
            self._start_due()
            self._kill_stuck()
            if resend.due():
                self._restore_folder()
                self._send_roster()
                self._children.reap_strays(self._nets.pids)

    def end_all(self) -> None:
        """Ends all child processes, first by SIGTERM, then by SIGKILL, and frees the run's memory."""
        self._stop_listeners()
        for posix_signal in (signal.SIGTERM, signal.SIGKILL):
            self._children.send_signal(posix_signal)
            deadline = time.monotonic() + KILL_SECONDS
            while list(self._children) and time.monotonic() < deadline and self._signals.count < 3:
                events = dict(self._poller.poll(100))
                self._receive_messages()  # a child that ends waits until its last messages are received
                for child in self._children.list_dead(events):
                    self._children.reap(child)
        self._exporter.close()
        self._hub.close()
        self._context.destroy(linger=0)
        self._memory.close()

    def describe_unsaved_steps(self) -> str:
        """Returns a line with the steps that are in no checkpoint, which a resumed run repeats. Empty if there are
        none."""
        done = read_newest_version(self._memory.segments, self._memory.sizes)
        return describe_unsaved_steps(done, max(0, self._folder.linked_step(LAST)))

    # --- starting ---

    def _start_due(self) -> None:
        """Starts the processes whose pause is over, one at a time. The fork server is started by exec, others are
        forked by it."""
        peer = self._processes.next_start(time.monotonic())
        while peer is not None:
            if peer.role == FORKSERVER:
                self._children.start_forkserver(peer, self._run.config)
                self._processes.record_start(peer, time.monotonic())
            else:
                crash_point("supervisor.before_start")
                self._children.request_process(peer)
                self._processes.record_request(peer, time.monotonic())
            peer = self._processes.next_start(time.monotonic())

    def _handle_forkserver(self, events: Mapping[object, int]) -> None:
        """Receives an answer of the fork server, if there is one. Sends a process that it has forked its settings."""
        child = self._children.receive_child(events)
        if child is None:
            return
        self._processes.record_answer(time.monotonic())
        if child.peer.role == FORKSERVER:
            return
        crash_point("supervisor.after_start")
        self._processes.record_start(child.peer, time.monotonic())
        if self._policy.is_left_out(child.peer):
            child.kill("is on a device that was lost meanwhile")
        else:
            for peer in (child.peer, *self._run.guests(child.peer)):
                self._children.send_start(self._run.start_document(peer))
        self._send_roster()

    def _poll_ms(self) -> int:
        """Returns the milliseconds to wait for events until the next process has to be started or the roster has to be
        resent."""
        seconds = self._processes.seconds_until_start(time.monotonic(), RESEND_SECONDS)
        return min(RESEND_MS, int(1000 * seconds) + 1)

    def _send_roster(self) -> None:
        """Sends all living processes the roster: which processes are alive, and whether to finish and end."""
        pids = self._living_pids()
        self._hub.set_alive(pids)
        entries = tuple(RosterEntry(peer.role, peer.index, peer.incarnation, pid) for peer, pid in pids.items())
        coordinators = () if self._machines is None else self._machines.coordinators
        has_lost_machine = self._machines is not None and not self._machines.has_group
        drain = self._stop_plan.ending is not Ending.NOT_ASKED or has_lost_machine
        roster = Roster(entries, drain, self._nets.status, coordinators)
        crash_point("supervisor.before_roster")
        for peer in pids:
            self._hub.send(peer, roster)

    def _living_pids(self) -> dict[Peer, int]:
        """Returns the pid of each living process and of each role in it, without the fork server."""
        pids = {}
        for child in self._children:
            if child.peer.role != FORKSERVER:
                pids.update(dict.fromkeys((child.peer, *self._run.guests(child.peer)), child.pid))
        return pids

    # --- receiving ---

    def _handle_signals(self) -> Ending:
        """Begins to stop the run if a signal has asked for that. Returns how far the run's end has come."""
        self._signals.drain()
        waits_for_disk = self.last_report is not None and self.last_report.waits_for_disk
        line = self._stop_plan.update(self._signals.count, time.monotonic(), waits_for_disk=waits_for_disk)
        if line:
            self._progress.say(line)
        if line and self._stop_plan.ending is not Ending.NOW:
            self._service.notify_stopping()
            self._stop_listeners()
            self._send_roster()
        return self._stop_plan.ending

    def _stop_listeners(self) -> None:
        for listener in self._listeners:
            listener.stop()

    def _receive_messages(self) -> None:
        """Receives and handles the messages of all processes."""
        for peer, message in self._hub.receive():
            if isinstance(message, Hello):
                crash_point("supervisor.ready_heard")
                self._processes.record_heartbeat(peer, 0.0, time.monotonic())
                self._send_roster()
            elif isinstance(message, Heartbeat):
                self._processes.record_heartbeat(peer, message.still, time.monotonic())
            elif isinstance(message, Notice | SkippedDataReport | UntrainedFeatures):
                self._notices.show(peer, message)
            elif isinstance(message, RunReport) and peer.role == COORDINATOR:
                self._processes.record_heartbeat(peer, 0.0, time.monotonic())
                crash_point("supervisor.report_heard")
                self._handle_report(message)

    def _handle_report(self, report: RunReport) -> None:
        """Passes the coordinator's report on to all that follow the run's progress, and shows it."""
        self.last_report = report
        self._policy.record_progress(report.step)
        self._service.notify_progress(report)
        self._exporter.take(report, self._death_log.count_roles())
        for listener in self._listeners:
            listener.handle_report(report)
        warning = self._slow_loader.update(report)
        if warning:
            log.warning("%s", warning)
            self._progress.say(warning)
        self._progress.show(report)

    # --- deaths ---

    def _handle_death(self, child: Child) -> bool:
        """Restarts a process that has died, or decides to go on without it. Returns whether the run has finished.

        Raises RunError if the run can't go on.
        """
        peer = child.peer
        self._restore_folder()
        ending = self._children.reap(child)
        self._processes.record_death(peer, ending, time.monotonic())
        if peer.role == COORDINATOR and child.returncode == 0:
            self._wait_until(self._is_finished, LAST_MESSAGES_SECONDS)
        if peer.role == COORDINATOR and self._is_finished():
            return not self._wait_for_machines(peer, "it has finished", finished=True)
        failure = child.failure
        if failure is not None and not failure.signature and not failure.lost:
            raise RunError(add_worker_death(failure.reason, self._death_log.deaths), failure.exit_code)
        death = self._death_log.add(self._run, child, ending)
        needed = peer.role != FORKSERVER or self._processes.has_waiting
        decision = self._policy.decide(peer, failure, batch=death.batch, needed=needed)
        self._follow_decision(peer, death, decision)
        return False

    def _follow_decision(self, peer: Peer, death: Death, decision: Decision) -> None:
        """Restarts a dead process or goes on without it, as decided. Raises RunError if the run can't go on."""
        log.warning("%s; %s", death.describe(), decision.reason)
        if decision.leave_out:
            self._progress.say(f"{death.describe()}; {decision.reason}")
            self._leave_out_device(self._lost.of_worker[peer.index])
            self._send_roster()
        elif not decision.restart:
            raise self._death_log.error(decision.reason, decision.exit_code)
        elif peer.role == COORDINATOR:
            self._restart_coordinator(peer, death, decision)
        else:
            self._show_restart(death, decision.reason)
            self._processes.schedule_restart(peer, time.monotonic() + decision.pause, decision.reason)
            self._start_due()

    def _restart_coordinator(self, coordinator: Peer, death: Death, decision: Decision) -> None:
        """Starts the coordinator's successor now, or on several machines when the other machines are ready too."""
        self._kill_workers(self._run.planned.exchange.workers_on_devices, MEMORY_GONE)
        has_moved = self._move_exchange()
        reason = f"{decision.reason}; {self._run.planned.exchange}" if has_moved else decision.reason
        self._show_restart(death, reason)
        deaths = self._death_log.deaths_in_batches(self._run.deaths, self._policy.done)
        self._run = replace(self._run, deaths=deaths)
        if self._wait_for_machines(coordinator, decision.reason):
            return
        due = time.monotonic() + decision.pause
        self._prepare_restart(self._processes.schedule_restart(coordinator, due, decision.reason))
        self._start_due()

    def _show_restart(self, death: Death, reason: str) -> None:
        """Shows a death after which the process is restarted, and counts the restart."""
        self._progress.say(f"{death.describe()}; {reason}")
        self._folder.count_restart()
        self._send_roster()

    def _prepare_restart(self, coordinator: Peer, step: int | None = None) -> None:
        """Prepares the run for the dead coordinator's successor.

        `step`: on which the machines have agreed; None: the newest step in memory or in a checkpoint.
        """
        self._run = plan_restart(self._run, self._folder, coordinator, self._memory.segments, step)
        self._show_notes()
        self._progress.say(f"the run goes on from step {self._run.step}")

    # --- what the listeners decide ---

    def _perform(self, action: Action) -> None:
        """Carries out an action that a listener has decided."""
        match action:
            case SendRoster():
                self._send_roster()
            case KillCoordinator(reason):
                self._kill_coordinator(reason)
            case StartCoordinator():
                self._run = replace(self._run, rank=action.rank)
                self.last_report = None
                successor = self._processes.schedule_restart(action.predecessor, time.monotonic(), action.reason)
                self._prepare_restart(successor, action.step)

    def _wait_for_machines(self, coordinator: Peer, reason: str, *, finished: bool = False) -> bool:
        """Reports the coordinator's end to the other machines, if there are any. Returns whether its successor has to
        wait for them."""
        if self._machines is None or not self._machines.has_group:
            return False
        steps = resumable_steps(self._folder, self._memory.segments)
        self._show_notes()
        self._machines.coordinator_ended(coordinator, reason, steps, self._folder.checkpoint_steps(), finished=finished)
        return True

    @property
    def _exit_code(self) -> int:
        """Returns the exit code of a run that has finished or was stopped."""
        if self._stop_plan.ending is not Ending.NOT_ASKED:
            return self._signals.exit_code
        if self._machines is not None and not self._machines.has_group:
            return EXIT_CRASH_LOOP
        if self.last_report is not None and self.last_report.stopped_elsewhere:
            return EXIT_CRASH_LOOP
        return EXIT_DONE

    # --- devices and stuck processes ---

    def _leave_out_device(self, device: str) -> None:
        """Kills the processes that use a lost device. Moves the exchange to other devices if no coordinator is alive
        that uses it."""
        self._kill_workers(self._lost.workers_on(device), "is on a device that is lost")
        if device not in self._run.planned.exchange.devices:
            return
        if self._kill_coordinator(f"uses {device}, which is lost"):
            return  # the exchange is moved when the coordinator's death is seen
        if self._move_exchange():
            self._progress.say(str(self._run.planned.exchange))

    def _move_exchange(self) -> bool:
        """Chooses other devices for the exchange (sums and weights) if the run has left out some of its devices.

        Must be called while there is no coordinator. Returns whether the exchange was changed.
        """
        planned = self._run.planned
        exchange = self._lost.exchange_without_lost(planned.exchange)
        if exchange is planned.exchange:
            return False
        new_workers = set(exchange.workers_on_devices).difference(planned.exchange.workers_on_devices)
        self._kill_workers(new_workers, "gets the coordinator on its device")
        self._run = replace(self._run, answer=replace(planned, exchange=exchange))
        return True

    def _kill_workers(self, indices: Collection[int], reason: str) -> None:
        for child in self._children:
            if child.peer.role == WORKER and child.peer.index in indices:
                self._kill_innocent(child, reason)

    def _kill_coordinator(self, reason: str) -> bool:
        """Kills the coordinator. Returns False if none is alive."""
        for child in self._children:
            if child.peer.role == COORDINATOR:
                self._kill_innocent(child, reason)
                return True
        return False

    def _kill_innocent(self, child: Child, reason: str) -> None:
        """Kills a process for a reason that is not its fault, so the death does not count against it."""
        self._policy.excuse(child.peer)
        child.kill(reason)

    def _kill_stuck(self) -> None:
        """Kills processes that are silent or don't advance. Other processes get what they own only when their death is
        seen (I4)."""
        for stuck in self._processes.mark_stuck(time.monotonic()):
            self._progress.say(f"{stuck.peer} {stuck.reason}; killing it")
            self._children[stuck.peer].kill(stuck.reason)

    # --- helpers ---

    def _restore_folder(self) -> None:
        """Restores a run folder that was deleted, and sends the descriptor of the new one to all processes."""
        if self._folder.restore_if_deleted():
            self._children.send_folder(self._folder.fd)
            log_to_folder(self._folder.logs)
            with suppress(ConfigError):
                self._folder.write_config(self._run.config, self._run.overrides)
        self._show_notes()

    def _show_notes(self) -> None:
        """Logs and shows the new lines that the run folder has for the user."""
        for note in self._folder.pop_notes():
            log.warning("%s", note)
            self._progress.say(note)

    def _is_finished(self) -> bool:
        """Tells whether the coordinator has reported that it has finished."""
        return self.last_report is not None and self.last_report.finished

    def _wait_until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Receives messages until a condition is met, at most `seconds`."""
        deadline = time.monotonic() + seconds
        while not condition() and time.monotonic() < deadline:
            self._poller.poll(50)
            self._receive_messages()
