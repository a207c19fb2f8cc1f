"""The supervisor process, from start to end: prepare, start the others, watch, restart, show, end.

Owns the run's memory (I6). Sees deaths by pidfd, not by silence; what it knows about who lives it tells the
coordinator as a roster. Never imports torch.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import zmq

from pool import crash_points
from pool.config import Config
from pool.crash_points import crash_point
from pool.errors import EXIT_CRASH_LOOP, EXIT_DONE, ConfigError, PoolError, RunError
from pool.launch import Launch
from pool.protocol.again import SAY_AGAIN_MS, SAY_AGAIN_SECONDS, SayAgain
from pool.protocol.channel import Hub
from pool.protocol.identity import COORDINATOR, FEEDER, FORKSERVER, SUPERVISOR, WORKER, Peer
from pool.protocol.messages import Heartbeat, Hello, Notice, Roster, RosterEntry, RunReport
from pool.run_dir import shown
from pool.shm import bells
from pool.supervisor.child import Child
from pool.supervisor.children import Children
from pool.supervisor.closing import closing_lines
from pool.supervisor.data_files import check_at_end
from pool.supervisor.deaths import Death, account
from pool.supervisor.forkserver import ForkServer
from pool.supervisor.logs import log_into
from pool.supervisor.oom import oom_kills
from pool.supervisor.orphans import Orphans
from pool.supervisor.policy import RestartPolicy
from pool.supervisor.preparation import prepare, reserve
from pool.supervisor.pulse import Pulse
from pool.supervisor.resuming import go_on
from pool.supervisor.run_folder import RunFolder
from pool.supervisor.service import ServiceManager
from pool.supervisor.signals import StopSignals
from pool.supervisor.stopping import StopPlan
from pool.tasks.registry import BUILT_IN, task_module
from pool.telemetry import trace
from pool.telemetry.progress import ProgressLine

log = logging.getLogger(__name__)

LAST_WORDS_SECONDS = 1.0  # how long a dead child's message may still be on its way
KILL_SECONDS = 5.0  # between asking a child to end and killing it


def train(
    config: Config,
    *,
    resume: bool,
    allow_different_numerics: bool = False,
    changes: Sequence[tuple[str, Any]] = (),
    again: str | None = None,
) -> int:
    """Runs a training run to its end. Returns the exit code; raises PoolError with what its user has to know.

    `changes`: keys and values of `--override`; `again`: the command that would go on with the run, shown when it is
    stopped.
    """
    orphans = Orphans()
    folder = RunFolder(config, resume=resume)
    try:
        return _supervise(config, folder, allow_different_numerics, changes, again)
    except PoolError as error:
        raise PoolError(shown(str(error)), error.exit_code) from None
    except OSError as error:  # no memory, no descriptor, no process: the user's to know, not a bug
        log.exception("the run ends")
        raise RunError(shown(f"{error.filename or folder.path}: {error.strerror or error}")) from None
    finally:
        orphans.end(KILL_SECONDS)
        folder.close()


def _supervise(
    config: Config,
    folder: RunFolder,
    allow_different_numerics: bool,
    changes: Sequence[tuple[str, Any]],
    again: str | None,
) -> int:
    progress = ProgressLine()
    logging.raiseExceptions = False  # a full disk loses log lines, nothing else
    log_into(folder.logs)
    with StopSignals() as signals:
        crash_points.arm(config.testing.crash_points, Peer(SUPERVISOR))
        progress.say(f"run {folder.path}: preparing")
        if config.run.trace:
            trace.clear(folder.inside)
        launch, forkserver = prepare(
            config, folder, signals, allow_different_numerics=allow_different_numerics, changes=changes
        )
        try:
            folder.record(config, launch.overrides)
            supervisor = Supervisor(launch, forkserver, folder, signals, progress)
        except BaseException:
            forkserver.end()
            raise
        for note in folder.take_notes():
            log.warning("%s", note)
            progress.say(note)
        if launch.checkpoint is not None:
            progress.say(f"resuming from {launch.checkpoint}, step {launch.step}")
        progress.say(f"workers on {', '.join(launch.devices)}")
        try:
            code = supervisor.run()
        except (PoolError, OSError):
            if unsaved := supervisor.unsaved():
                progress.say(unsaved)
            raise
        finally:
            supervisor.end_all()
            progress.close()
            if (trace_file := config.trace_file) is not None:
                progress.say(trace.finish(folder.inside, trace_file))
        for line in _closing_lines(config, supervisor.last_report, again if code != EXIT_DONE else None):
            progress.say(line)
        return code


def _closing_lines(config: Config, report: RunReport | None, again: str | None) -> Iterator[str]:
    module = task_module(config.task)
    name = None if config.task in BUILT_IN else config.task
    return closing_lines(config.run.dir, report, again, name, getattr(module, "EXPORT_SUFFIX", ""))


class Supervisor:
    def __init__(
        self, launch: Launch, forkserver: ForkServer, folder: RunFolder, signals: StopSignals, progress: ProgressLine
    ) -> None:
        self._launch = launch
        self._folder = folder
        self._signals = signals
        self._progress = progress
        self._context = zmq.Context[zmq.Socket[bytes]]()
        self._poller = zmq.Poller()
        self._children = Children(
            *reserve(launch), bells.make(len(launch.devices)), folder.logs, self._poller, forkserver
        )
        self._hub = Hub(self._context, launch.address_key, Peer(SUPERVISOR))
        self._poller.register(self._hub.socket, zmq.POLLIN)
        self._poller.register(signals.fileno(), zmq.POLLIN)
        self._due: dict[Peer, float] = {}  # who is to be started, and when
        self._deaths: list[Death] = []
        self._oom_kills = oom_kills()
        patience = launch.config.pool
        self._pulse = Pulse(patience.hang_timeout, patience.start_timeout, SAY_AGAIN_SECONDS)
        self._policy = RestartPolicy(launch.config.pool.restarts)
        self._stop = StopPlan(launch.config.pool.stop_timeout)
        self._service = ServiceManager()
        self._finished = False
        self.last_report: RunReport | None = None

    def run(self) -> int:
        """Starts everybody, then: wait, hear, decide, act, until the coordinator has finished."""
        crash_point("supervisor.memory_reserved")
        self._due = dict.fromkeys(self._places(), time.monotonic())
        self._start_due()
        again = SayAgain()
        while True:
            events = dict(self._poller.poll(self._pause_ms()))
            self._hear()
            self._signals.drain()
            stop = self._stop.signals(self._signals.count, time.monotonic())
            if stop.say:
                self._progress.say(stop.say)
            if stop.now:
                return self._signals.exit_code
            if stop.begin:
                self._service.stopping()
                self._tell_roster()
            self._hear_forkserver(events)
            for child in self._children.dead(events):
                if (code := self._died(child)) is not None:
                    return code
            self._start_due()
            self._kill_stuck()
            if again.due():
                self._look_at_folder()
                self._tell_roster()
                self._children.reap_strays()

    def end_all(self) -> None:
        """Ends every child: asks, waits, kills. Nothing of the run is left afterwards."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            self._children.send_signal(number)
            deadline = time.monotonic() + KILL_SECONDS
            while list(self._children) and time.monotonic() < deadline and self._signals.count < 3:
                events = dict(self._poller.poll(100))
                self._hear()  # a child that ends waits for its last words to be taken
                for child in self._children.dead(events):
                    self._forget(child)
        self._hub.close()
        self._context.destroy(linger=0)
        self._children.close()

    def unsaved(self) -> str:
        """What a run that ends early has to say first: which steps a resumed one does again; empty if none."""
        if self.last_report is None or self.last_report.step <= (saved := max(0, self.last_report.checkpoint)):
            return ""
        return f"steps {saved + 1} to {self.last_report.step} are in no checkpoint; --resume does them again"

    # --- starting ---

    def _places(self) -> list[Peer]:
        workers = [Peer(WORKER, index) for index in range(len(self._launch.devices))]
        return [Peer(COORDINATOR), Peer(FEEDER), *workers]

    def _start_due(self) -> None:
        """Asks for those whose pause is over, one after the other; a fork server is started by exec."""
        now = time.monotonic()
        for peer in [peer for peer, due in self._due.items() if due <= now]:
            if peer.role == FORKSERVER:
                del self._due[peer]
                self._children.start_forkserver(peer, self._launch.config.testing.crash_points)
                self._pulse.start(peer, now)
            elif self._children.can_fork:
                crash_point("supervisor.before_start")
                self._children.ask_for(peer)
                self._pulse.beat(self._children.forkserver, 0.0, now)  # it has as long as anybody to move

    def _hear_forkserver(self, events: Mapping[object, int]) -> None:
        child = self._children.hear(events)
        if child is None:
            return
        self._pulse.forget(self._children.forkserver)  # it owes nothing until it is asked again
        if child.peer.role == FORKSERVER:
            return
        crash_point("supervisor.after_start")
        del self._due[child.peer]
        self._pulse.start(child.peer, time.monotonic())
        self._children.tell(child, self._launch.told_to(child.peer))
        self._tell_roster()

    def _pause_ms(self) -> int:
        """Until something is due, if nothing happens before."""
        now = time.monotonic()
        can_start = (due for peer, due in self._due.items() if peer.role == FORKSERVER or self._children.can_fork)
        return min([SAY_AGAIN_MS, *(max(0, int(1000 * (due - now)) + 1) for due in can_start)])

    def _tell_roster(self) -> None:
        living = {child.peer: child.pid for child in self._children if child.peer.role != FORKSERVER}
        self._hub.set_alive(living)
        entries = tuple(RosterEntry(peer.role, peer.index, peer.incarnation, pid) for peer, pid in living.items())
        roster = Roster(entries, self._stop.begun)
        crash_point("supervisor.before_roster")
        for peer in living:
            self._hub.send(peer, roster)

    # --- watching ---

    def _hear(self) -> None:
        for peer, message in self._hub.receive():
            if isinstance(message, Hello):
                crash_point("supervisor.ready_heard")
                self._pulse.beat(peer, 0.0, time.monotonic())
                self._tell_roster()
            elif isinstance(message, Heartbeat):
                self._pulse.beat(peer, message.still, time.monotonic())
            elif isinstance(message, Notice):
                log.warning("%s: %s", peer, message.text)
                self._progress.say(message.text)
            elif isinstance(message, RunReport) and peer.role == COORDINATOR:
                self._pulse.beat(peer, 0.0, time.monotonic())
                crash_point("supervisor.report_heard")
                self._finished |= message.finished
                self.last_report = message
                self._policy.progress(message.step)
                self._service.progress(message.computed)
                self._progress.show(message)

    def _died(self, child: Child) -> int | None:
        """A child is dead: the exit code if the run is over, None if it goes on. Raises RunError."""
        peer = child.peer
        self._look_at_folder()
        how = self._forget(child)
        if peer.role == COORDINATOR and child.returncode == 0:
            self._wait_until(lambda: self._finished, LAST_WORDS_SECONDS)
        if peer.role == COORDINATOR and self._finished:
            if self._stop.begun:
                return self._signals.exit_code
            check_at_end(self._launch)
            return EXIT_DONE
        failure = child.failure
        if failure is not None and not failure.signature:
            raise RunError(failure.reason, failure.exit_code)
        death = self._describe(child, how)
        self._deaths.append(death)
        needed = peer.role != FORKSERVER or bool(self._due)
        decision = self._policy.died(peer, failure, batch=death.batch, needed=needed)
        log.warning("%s; %s", death.line(), decision.why)
        if not decision.restart and decision.exit_code == EXIT_CRASH_LOOP:
            raise RunError(f"{account(self._deaths)}\n{decision.why}", EXIT_CRASH_LOOP)
        if not decision.restart:
            raise RunError(f"{death.line()}; {decision.why}", decision.exit_code)
        self._progress.say(f"{death.line()}; {decision.why}")
        self._tell_roster()
        successor = replace(peer, incarnation=peer.incarnation + 1)
        if peer.role == COORDINATOR:
            self._launch = go_on(self._launch, self._folder, successor, self._children.segments)
            self._say_notes()
            self._progress.say(f"the run goes on from step {self._launch.step}")
        self._due[successor] = time.monotonic() + decision.pause
        self._start_due()
        return None

    def _describe(self, child: Child, how: str) -> Death:
        before, self._oom_kills = self._oom_kills, oom_kills()
        killed = child.returncode == -signal.SIGKILL
        return Death(
            child.peer,
            how,
            killed_since=child.killed_since,
            out_of_memory=killed and self._oom_kills > before,
            batch=self._children.held_batch(child.peer),
            last_lines=child.last_lines(),
            raised="" if child.failure is None else child.failure.reason,
            log=child.log,
        )

    def _look_at_folder(self) -> None:
        if self._folder.look():
            self._children.give_folder(self._folder.fd)
            log_into(self._folder.logs)
            with suppress(ConfigError):
                self._folder.record(self._launch.config, self._launch.overrides)
        self._say_notes()

    def _say_notes(self) -> None:
        for note in self._folder.take_notes():
            log.warning("%s", note)
            self._progress.say(note)

    def _forget(self, child: Child) -> str:
        self._pulse.forget(child.peer)
        return self._children.forget(child)

    def _kill_stuck(self) -> None:
        """Silence leads to a kill, and to nothing else before the death is seen (I4)."""
        for stuck in self._pulse.stuck(time.monotonic()):
            self._progress.say(f"{stuck.peer} {stuck.why}; killing it")
            self._pulse.forget(stuck.peer)
            self._children[stuck.peer].kill(stuck.why)

    def _wait_until(self, condition: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition() and time.monotonic() < deadline:
            self._poller.poll(50)
            self._hear()
