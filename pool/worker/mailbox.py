"""The worker's thread for messages. It owns the sockets, so that a worker that computes still sends and receives.

The computing thread and autograd's threads only change the queue of jobs under its lock. Finished batches and complete
versions of the weights are signalled through shared memory (`pool.shm.signals`), directly between the computing thread
and the coordinator. For all other messages the computing thread wakes this one.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NoReturn

import zmq

from loader.exit_codes import EXIT_FAILED
from pool.process.start import RunStart
from pool.protocol.channel import Link
from pool.protocol.identity import SUPERVISOR, Peer
from pool.protocol.messages import Heartbeat, Hello, Notice, Outcome, Roster, Times, WorkerOrders, WorkerReport
from pool.protocol.resend import RESEND_MS, ResendTimer
from pool.shm.signals import Bell, WorkerEnd
from pool.telemetry.trace import Trace
from pool.worker.job import Job
from pool.worker.job_queue import JobQueue, is_sound

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 0.5

Todo = Literal["compute", "prepare"]
Spent = Literal["computing", "waiting_for_batches", "waiting_for_weights"]  # fields of Times


class Mailbox(threading.Thread):
    """Connects a worker to the coordinator and the supervisor: receives assignments into the queue of jobs, and sends
    reports, heartbeats and notices."""

    def __init__(self, start: RunStart, shortcut: WorkerEnd, trace: Trace) -> None:
        """Makes the thread, which is to be started. `shortcut`: the worker's end of the signals in shared memory."""
        super().__init__(name="mailbox", daemon=True)
        self._start = start
        self._shortcut = shortcut
        self._trace = trace
        self._queue = JobQueue(start.coordinator.incarnation)
        self._seconds: dict[Spent, float] = {"computing": 0.0, "waiting_for_batches": 0.0, "waiting_for_weights": 0.0}
        self._lock = threading.Lock()  # held while the queue is used
        self._moved: float | None = None  # when the computing thread last moved; None while it waits for work
        self._notices = deque[str]()  # lines for the run's user that are not sent yet
        self._to_say = Bell(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))  # wakes this thread to send something

    def next_job(self) -> tuple[Job, Todo]:
        """Waits for a job, and returns it with what is to be done: compute it, or prepare what needs no weights. The
        time of waiting is counted as waiting for weights or for batches."""
        while True:
            with self._lock:
                if self._queue.complete(self._shortcut.newest(self._queue.incarnation)):
                    self._trace.mark("weights complete", version=self._queue.version)
                if (job := self._queue.next()) is not None:
                    return job, "compute"
                if (job := self._queue.next_to_prepare()) is not None:
                    return job, "prepare"
                kind: Spent = "waiting_for_weights" if self._queue.waits_for_weights else "waiting_for_batches"
            with self._measured(kind), self._trace.span(kind.replace("_", " ")):
                self._shortcut.wait()

    def next_to_prepare(self) -> Job | None:
        """Returns a job whose batch may be copied to the device while another one is computed; None if there is
        none."""
        with self._lock:
            return self._queue.next_to_prepare()

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Counts the time inside as computing. Meanwhile heartbeats tell the supervisor for how long the computing
        thread has made no progress."""
        self._moved = time.monotonic()
        try:
            with self._measured("computing"):
                yield
        finally:
            self._moved = None

    def bucket(self, job: Job, bucket: int) -> None:
        """Reports that a bucket's gradients are complete in the gradient slot. A bucket is parameters that are stepped
        together. Safe from any thread."""
        self._moved = time.monotonic()
        self._trace.mark("bucket complete", bucket=bucket)
        with self._lock:
            job.buckets.append(bucket)
        self._to_say.ring()

    def prepared(self, job: Job) -> None:
        """Notes that a job's batch was read and will not be read again before the job is computed. Wakes the thread for
        messages if the coordinator waits to hear that. Safe from any thread."""
        with self._lock:
            waited_for = self._queue.prepared(job)
        if waited_for:
            self._to_say.ring()

    def finish(self, job: Job, outcomes: tuple[Outcome, ...], absent: tuple[int, ...] = ()) -> None:
        """Reports that a job is finished: in shared memory if all its numbers are finite and no gradient is missing,
        and by a message if more has to be said. `absent`: parameters that got no gradient."""
        with self._lock:
            waited_for = self._queue.finish(job, outcomes, absent)
        if not absent and is_sound(outcomes):
            losses = [number for outcome in outcomes for number in (*outcome.losses, *outcome.metrics)]
            self._shortcut.finish(job.assignment.attempt, losses, self._times)
        if waited_for:
            self._to_say.ring()

    def say(self, text: str) -> None:
        """Sends the run's user a line. Safe from any thread, also before this one is started."""
        self._notices.append(text)
        self._to_say.ring()

    def run(self) -> None:
        """Serves messages for ever. If that fails the process ends, because the computing thread would wait for
        ever."""
        try:
            self._serve()
        except BaseException:
            log.exception("the mailbox can't go on")
            os._exit(EXIT_FAILED)  # or the computing thread would wait for ever

    def _serve(self) -> NoReturn:
        """Sends and receives messages in an endless loop: heartbeats and notices to the supervisor, reports to the
        coordinator, and orders from it."""
        context = zmq.Context[zmq.Socket[bytes]]()
        start = self._start
        supervisor = Link(context, start.address_key, start.peer, Peer(SUPERVISOR), os.getppid())
        coordinator = Link(context, start.address_key, start.peer, start.coordinator, start.coordinator_pid)
        for link in (supervisor, coordinator):
            link.send(Hello(os.getpid()))
        poller = zmq.Poller()
        poller.register(supervisor.socket, zmq.POLLIN)
        poller.register(coordinator.socket, zmq.POLLIN)
        poller.register(self._to_say.fileno(), zmq.POLLIN)
        next_beat = 0.0
        again = ResendTimer()
        while True:
            events = dict(poller.poll(RESEND_MS))
            if (now := time.monotonic()) >= next_beat:
                next_beat = now + HEARTBEAT_SECONDS
                moved = self._moved
                supervisor.send(Heartbeat(0.0 if moved is None else now - moved))
            while self._notices:
                supervisor.send(Notice(self._notices.popleft()))
            followed = False
            if supervisor.socket in events:
                for message in supervisor.receive():
                    if isinstance(message, Roster) and coordinator.follow(message):
                        followed = True
                        with self._lock:
                            self._queue.new_coordinator(coordinator.other.incarnation)
            waited_for = coordinator.socket in events and self._take_orders(coordinator)
            if rung := self._to_say.fileno() in events:
                self._to_say.silence()
            if (followed or waited_for or rung or again.due()) and (report := self._report()) is not None:
                coordinator.send(report)

    def _take_orders(self, coordinator: Link) -> bool:
        """Receives the coordinator's orders and puts the newest of them into the queue. Returns True if the coordinator
        waits for an answer that can be given now."""
        orders = [message for message in coordinator.receive() if isinstance(message, WorkerOrders)]
        if not orders:
            return False
        with self._lock:
            waited_for = self._queue.orders(orders[-1])
        self._shortcut.wake()
        return waited_for

    def _report(self) -> WorkerReport | None:
        """Returns the worker's report for the coordinator; None while a job of an earlier coordinator is in work."""
        with self._lock:
            if not self._queue.may_speak:
                return None
            return WorkerReport(self._queue.reports(), self._times, self._queue.settled)

    @property
    def _times(self) -> Times:
        return Times(**self._seconds)

    @contextmanager
    def _measured(self, kind: Spent) -> Iterator[None]:
        """Counts the time inside as time that the worker spends on `kind`, such as computing."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self._seconds[kind] += time.monotonic() - begin
