"""The coordinator process, from start to end: hear events, ask the books, act.

The only one that changes weights (I3). What it alone knows is in its checkpoints (I9).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

import torch
import zmq

from pool import _native, numerics
from pool.config import coordinator_threads
from pool.coordinator.books import Books
from pool.coordinator.execution import Execution
from pool.coordinator.metrics import Metrics
from pool.coordinator.rules import Rules
from pool.crash_points import crash_point
from pool.launch import Launch
from pool.protocol.again import SAY_AGAIN_MS, SayAgain
from pool.protocol.channel import Hub, Link
from pool.protocol.identity import FEEDER, SUPERVISOR, WORKER, Peer
from pool.protocol.messages import FeederReport, Hello, Message, Notice, Roster, WorkerReport
from pool.run_dir import shown
from pool.shm.memory import Memory
from pool.telemetry.trace import Trace

REPORT_SECONDS = 0.2


def start(launch: Launch) -> Callable[[], None]:
    return Coordinator(launch).run


class Coordinator:
    def __init__(self, launch: Launch) -> None:
        config = launch.config
        torch.set_num_threads(coordinator_threads(config))
        numerics.check_coordinator(launch.fingerprint, launch.peer)
        _native.keep_freed_memory()  # what an optimizer allocates in a step it allocates again in the next
        self._context = zmq.Context[zmq.Socket[bytes]]()
        self._supervisor = Link(self._context, launch.address_key, launch.peer, Peer(SUPERVISOR), os.getppid())
        self._hub = Hub(self._context, launch.address_key, launch.peer)
        self._alive: set[Peer] = set()
        self._joined: set[Peer] = set()
        self._memory = Memory(launch)
        samples = config.train.batches_per_step * config.data.batch_size
        self._trace = Trace(launch.run_dir, launch.peer, on=bool(config.run.trace))
        self._shortcut = self._memory.coordinator_end(launch)
        self._metrics = Metrics(launch.run_dir, launch.step, config.train.steps, samples, self._say)
        self._execution = Execution(
            launch,
            self._memory,
            self._metrics,
            self._hub,
            self._shortcut,
            self._trace,
            self._say,
        )
        validated = self._execution.checkpoints.validations.newest
        self._books = Books(
            _rules(launch),
            launch.step,
            launch.start,
            incarnation=launch.peer.incarnation,
            validated=-1 if validated is None else validated.step,
        )
        self._next_report = 0.0

    def run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._supervisor.socket, zmq.POLLIN)
        poller.register(self._hub.socket, zmq.POLLIN)
        poller.register(self._execution.checkpoints.fileno(), zmq.POLLIN)
        poller.register(self._shortcut.bell.fileno(), zmq.POLLIN)
        crash_point("coordinator.before_hello")
        self._supervisor.send(Hello(os.getpid()))
        crash_point("coordinator.after_hello")
        again = SayAgain()
        while not (self._execution.at_end and self._execution.checkpoints.finish(self._books.step)):
            events = dict(poller.poll(SAY_AGAIN_MS))
            if self._shortcut.bell.fileno() in events:
                self._look()
            self._hear(events)
            self._execution.checkpoints.hear()
            if again.due() and not self._execution.at_end:
                self._execution.act(self._books.say_again())
            self._report()
        crash_point("coordinator.before_finished")
        self._report(finished=True)
        crash_point("coordinator.after_finished")
        self._metrics.close()
        self._hub.close()
        self._supervisor.close()
        self._context.term()  # waits until the last words are out

    def _say(self, text: str) -> None:
        """To the run's user."""
        self._supervisor.send(Notice(shown(text)))

    # --- events ---

    def _hear(self, events: Mapping[object, int]) -> None:
        if self._supervisor.socket in events:
            for message in self._supervisor.receive():
                if isinstance(message, Roster):
                    self._roster(message)
        # before the first roster nobody is known, and whoever spoke is still heard later
        if self._alive and self._hub.socket in events:
            for peer, received in self._hub.receive():
                self._message(peer, received)

    def _look(self) -> None:
        """Somebody has rung: what has each worker finished?"""
        self._shortcut.bell.silence()
        self._trace.mark("bell heard")
        crash_point("coordinator.bell_heard")
        news = {peer: self._shortcut.finished(peer.index) for peer in self._joined if peer.role == WORKER}
        for peer, finished in news.items():
            self._metrics.worker(peer.index, finished.times)
        self._execution.act(self._books.finished(news))

    def _roster(self, roster: Roster) -> None:
        alive = {Peer(e.role, e.index, e.incarnation): e.pid for e in roster.alive if e.role in (FEEDER, WORKER)}
        for peer in sorted(self._joined - alive.keys()):
            self._joined.remove(peer)
            if peer.role == FEEDER:
                self._execution.act(self._books.feeder_lost(peer))
            else:
                attempt = int(self._memory.in_work(peer.index)[0])
                raised = self._memory.raised(peer.index).of(attempt)
                self._execution.act(self._books.worker_lost(peer, attempt, raised))
        self._alive = set(alive)
        self._hub.set_alive(alive)
        self._execution.act(self._books.roster({peer for peer in alive if peer.role == WORKER}))
        if roster.drain:
            self._execution.act(self._books.drain())

    def _message(self, peer: Peer, message: Message) -> None:
        if peer not in self._joined:
            self._joined.add(peer)
            crash_point("coordinator.joined")
            self._execution.act(
                self._books.feeder_joined(peer) if peer.role == FEEDER else self._books.worker_joined(peer)
            )
        if isinstance(message, WorkerReport) and peer.role == WORKER:
            self._metrics.worker(peer.index, message.times)
            self._execution.act(self._books.worker_report(peer, message))
        elif isinstance(message, FeederReport) and peer.role == FEEDER:
            self._execution.act(self._books.feeder_report(peer, message))

    def _report(self, *, finished: bool = False) -> None:
        now = time.monotonic()
        if finished or now >= self._next_report:
            self._next_report = now + REPORT_SECONDS
            self._supervisor.send(
                self._metrics.report(
                    self._books.step,
                    self._execution.checkpoints.saved,
                    self._execution.epoch,
                    self._execution.learning_rate,
                    best=self._execution.checkpoints.best,
                    finished=finished,
                )
            )


def _rules(launch: Launch) -> Rules:
    config = launch.config
    _, plan = launch.planned()
    return Rules(
        steps=config.train.steps,
        batches_per_step=config.train.batches_per_step,
        num_buckets=len(plan.buckets),
        gradient_slots=config.pool.gradient_slots,
        has_buffers=bool(plan.buffers),
        validate_every=config.validate_every,
        validation_batches=config.train.validation_batches,
        on_bad_batch=config.train.on_bad_batch,
    )
