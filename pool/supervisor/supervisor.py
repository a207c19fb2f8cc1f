"""The supervisor process, from start to end: prepare, start the others, watch, restart, show, end.

Owns the run's memory (I6). Sees deaths by pidfd, not by silence; what it knows about who lives it tells the
coordinator as a roster. Never imports torch.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace

import zmq

from pool.config import Config
from pool.errors import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, RunError
from pool.launch import Launch
from pool.protocol.again import SAY_AGAIN_MS, SAY_AGAIN_SECONDS, SayAgain
from pool.protocol.channel import Hub
from pool.protocol.identity import COORDINATOR, FEEDER, SUPERVISOR, WORKER, Peer
from pool.protocol.messages import Failure, Heartbeat, Hello, Notice, Roster, RosterEntry, RunReport
from pool.supervisor import child as children
from pool.supervisor.child import Child
from pool.supervisor.policy import RestartPolicy
from pool.supervisor.preparation import go_on, prepare, reserve
from pool.supervisor.pulse import Pulse
from pool.supervisor.run_folder import RunFolder
from pool.supervisor.signals import StopSignals
from pool.telemetry.progress import ProgressLine

log = logging.getLogger(__name__)

LAST_WORDS_SECONDS = 1.0  # how long a dead child's message may still be on its way
KILL_SECONDS = 5.0  # between asking a child to end and killing it


def train(config: Config, *, resume: bool, allow_different_numerics: bool = False) -> int:
    """Runs a training run to its end. Returns the exit code; raises PoolError with what its user has to know."""
    folder = RunFolder(config, resume=resume)
    try:
        return _supervise(config, folder, allow_different_numerics)
    except OSError as error:  # no memory, no descriptor, no process: the user's to know, not a bug
        log.exception("the run ends")
        raise RunError(f"{error.filename or folder.path}: {error.strerror or error}") from None
    finally:
        folder.close()


def _supervise(config: Config, folder: RunFolder, allow_different_numerics: bool) -> int:
    progress = ProgressLine()
    logging.basicConfig(
        filename=folder.logs / "supervisor-0.log", format="%(asctime)s %(levelname)s %(message)s", force=True
    )
    with StopSignals() as signals:
        progress.say(f"run {folder.path}: preparing")
        launch = prepare(config, folder, signals, allow_different_numerics=allow_different_numerics)
        folder.record(config)
        for note in folder.take_notes():
            log.warning("%s", note)
            progress.say(note)
        if launch.checkpoint is not None:
            progress.say(f"resuming from {launch.checkpoint}, step {launch.step}")
        progress.say(f"workers on {', '.join(launch.devices)}")
        supervisor = Supervisor(launch, folder, signals, progress)
        try:
            return supervisor.run()
        finally:
            supervisor.end_all()
            progress.close()


class Supervisor:
    def __init__(self, launch: Launch, folder: RunFolder, signals: StopSignals, progress: ProgressLine) -> None:
        self._launch = launch
        self._folder = folder
        self._signals = signals
        self._progress = progress
        self._segments, self._sizes = reserve(launch)
        self._context = zmq.Context[zmq.Socket[bytes]]()
        self._hub = Hub(self._context, launch.supervisor_socket, Peer(SUPERVISOR))
        self._poller = zmq.Poller()
        self._poller.register(self._hub.socket, zmq.POLLIN)
        self._poller.register(signals.fileno(), zmq.POLLIN)
        self._children: dict[tuple[str, int], Child] = {}
        self._ready: set[Peer] = set()
        self._deadlines: dict[Peer, float] = {}
        self._failures: dict[Peer, Failure] = {}
        self._pulse = Pulse(launch.config.pool.hang_timeout, SAY_AGAIN_SECONDS)
        self._policy = RestartPolicy(launch.config.pool.restarts)
        self._draining = False
        self._finished = False

    def run(self) -> int:
        """Starts everybody, then: wait, hear, decide, act, until the coordinator has finished."""
        for peer in self._places():
            self._start(peer)
        again = SayAgain()
        while True:
            events = dict(self._poller.poll(SAY_AGAIN_MS))
            self._hear()
            self._signals.drain()
            if self._signals.count > 0 and not self._draining:
                self._draining = True
                self._progress.say("stopping: finishing the step and writing a checkpoint (once more: stop now)")
                self._tell_roster()
            if self._signals.count > 1:
                self._progress.say("stopped at once; the last checkpoint stays")
                return EXIT_INTERRUPTED
            for child in [child for child in self._children.values() if child.pidfd in events]:
                if (code := self._died(child)) is not None:
                    return code
            self._check_deadlines()
            self._kill_stuck()
            if again.due():
                self._tell_roster()

    def end_all(self) -> None:
        """Ends every child: asks, waits, kills. Nothing of the run is left afterwards."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for child in self._children.values():
                child.send_signal(number)
            deadline = time.monotonic() + KILL_SECONDS
            while self._children and time.monotonic() < deadline and self._signals.count < 3:
                events = dict(self._poller.poll(100))
                self._hear()  # a child that ends waits for its last words to be taken
                for child in [child for child in self._children.values() if child.pidfd in events]:
                    self._forget(child)
        self._hub.close()
        self._context.destroy(linger=0)
        for fd in self._segments.values():
            os.close(fd)

    # --- starting ---

    def _places(self) -> list[Peer]:
        workers = [Peer(WORKER, index) for index in range(len(self._launch.devices))]
        return [Peer(COORDINATOR), Peer(FEEDER), *workers]

    def _start(self, peer: Peer) -> None:
        launch = replace(self._launch, peer=peer)
        child = children.start(launch, self._segments, self._sizes, self._folder.logs)
        self._children[peer.place] = child
        self._poller.register(child.pidfd, zmq.POLLIN)
        self._deadlines[peer] = time.monotonic() + self._launch.config.pool.start_timeout
        self._hub.set_alive(child.peer for child in self._children.values())
        self._tell_roster()

    def _tell_roster(self) -> None:
        peers = [child.peer for child in self._children.values()]
        roster = Roster(tuple(RosterEntry(p.role, p.index, p.incarnation) for p in peers), self._draining)
        for peer in peers:
            self._hub.send(peer, roster)

    # --- watching ---

    def _hear(self) -> None:
        for peer, message in self._hub.receive():
            if isinstance(message, Hello):
                self._ready.add(peer)
                self._deadlines.pop(peer, None)
                self._pulse.beat(peer, 0.0, time.monotonic())
                self._tell_roster()
            elif isinstance(message, Heartbeat):
                self._pulse.beat(peer, message.still, time.monotonic())
            elif isinstance(message, Failure):
                self._failures[peer] = message
            elif isinstance(message, Notice):
                log.warning("%s: %s", peer, message.text)
                self._progress.say(message.text)
            elif isinstance(message, RunReport) and peer.role == COORDINATOR:
                self._pulse.beat(peer, 0.0, time.monotonic())
                self._finished |= message.finished
                self._policy.progress(message.step)
                self._progress.show(message)

    def _died(self, child: Child) -> int | None:
        """A child is dead: the exit code if the run is over, None if it goes on. Raises RunError."""
        peer = child.peer
        how = self._forget(child)
        if peer.role == COORDINATOR:
            self._wait_until(lambda: self._finished or peer in self._failures, LAST_WORDS_SECONDS)
            if self._finished:
                return EXIT_INTERRUPTED if self._draining else EXIT_DONE
        elif child.returncode == EXIT_FAILED:
            self._wait_until(lambda: peer in self._failures, LAST_WORDS_SECONDS)
        if (failure := self._failures.get(peer)) is not None:
            raise RunError(failure.reason, failure.exit_code)
        decision = self._policy.died(peer, was_ready=peer in self._ready)
        account = f"{peer} (incarnation {peer.incarnation}) {how}; {decision.why}"
        if not decision.restart:
            raise RunError("\n".join(filter(None, (account, child.last_lines()))))
        self._progress.say(account)
        self._tell_roster()
        successor = replace(peer, incarnation=peer.incarnation + 1)
        if peer.role == COORDINATOR:
            self._launch = go_on(self._launch, self._folder, successor)
            for note in self._folder.take_notes():
                log.warning("%s", note)
                self._progress.say(note)
            self._progress.say(f"the run goes on from step {self._launch.step}")
        self._start(successor)
        return None

    def _forget(self, child: Child) -> str:
        self._poller.unregister(child.pidfd)
        self._pulse.forget(child.peer)
        del self._children[child.peer.place]
        return child.reap()

    def _check_deadlines(self) -> None:
        for peer, deadline in self._deadlines.items():
            if time.monotonic() > deadline:
                raise RunError(
                    f"{peer} did not get ready within pool.start_timeout = "
                    f"{self._launch.config.pool.start_timeout:g} s; see {self._folder.logs}"
                )

    def _kill_stuck(self) -> None:
        """Silence leads to a kill, and to nothing else before the death is seen (I4)."""
        for stuck in self._pulse.stuck(time.monotonic()):
            self._progress.say(f"{stuck.peer} {stuck.why} (pool.hang_timeout); killing it")
            self._pulse.forget(stuck.peer)
            self._children[stuck.peer.place].send_signal(signal.SIGKILL)

    def _wait_until(self, condition: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition() and time.monotonic() < deadline:
            self._poller.poll(50)
            self._hear()
