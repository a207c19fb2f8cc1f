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
from pool.shm.signals import Signal, WorkerSignals
from pool.telemetry.trace import Trace
from pool.worker.job import Job
from pool.worker.job_queue import JobQueue, is_sound

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 0.5

JobAction = Literal["compute", "prepare"]
Activity = Literal["computing", "waiting_for_batches", "waiting_for_weights"]  # fields of Times


class Mailbox(threading.Thread):
    """Connects a worker to the coordinator and the supervisor: receives assignments into the queue of jobs, and sends
    reports, heartbeats and notices."""

    def __init__(self, start: RunStart, signals: WorkerSignals, trace: Trace) -> None:
        """Makes the thread, which is to be started. `signals`: the worker's end of the signals in shared memory."""
        super().__init__(name="mailbox", daemon=True)
        self._start = start
        self._signals = signals
        self._trace = trace
        self._queue = JobQueue(start.coordinator.incarnation)
        self._seconds: dict[Activity, float] = {
            "computing": 0.0,
            "waiting_for_batches": 0.0,
            "waiting_for_weights": 0.0,
        }
        self._lock = threading.Lock()  # of the queue
        self._last_progress: float | None = None  # time of the computing thread; None while it waits for work
        self._next_heartbeat = 0.0
        self._notices = deque[str]()  # lines for the run's user that are not sent yet
        self._wake_signal = Signal(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))  # set when there is more to send

    def next_job(self) -> tuple[Job, JobAction]:
        """Waits for a job. Returns it with what is to be done: compute it, or prepare what needs no weights.

        The time of waiting is counted as waiting for weights or for batches.
        """
        while True:
            with self._lock:
                if self._queue.update_version(self._signals.newest_version(self._queue.incarnation)):
                    self._trace.mark("weights complete", version=self._queue.version)
                job = self._queue.start_next()
                if job is not None:
                    return job, "compute"
                job = self._queue.start_preparing_next()
                if job is not None:
                    return job, "prepare"
                waiting: Activity = "waiting_for_weights" if self._queue.waits_for_weights else "waiting_for_batches"
            with self._count_time(waiting), self._trace.span(waiting.replace("_", " ")):
                self._signals.wait()

    def next_job_to_prepare(self) -> Job | None:
        """Returns a job whose batch may be copied to the device while another one is computed. None if there is
        none."""
        with self._lock:
            return self._queue.start_preparing_next()

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Counts the time inside as computing. Meanwhile heartbeats tell the supervisor for how long the computing
        thread has made no progress."""
        self._last_progress = time.monotonic()
        try:
            with self._count_time("computing"):
                yield
        finally:
            self._last_progress = None

    def report_bucket(self, job: Job, bucket: int) -> None:
        """Reports that a bucket's gradients are complete in the gradient slot. A bucket is parameters that are stepped
        together. Safe from any thread."""
        self._last_progress = time.monotonic()
        self._trace.mark("bucket complete", bucket=bucket)
        with self._lock:
            job.buckets.append(bucket)
        self._wake_signal.set()

    def finish_preparing(self, job: Job) -> None:
        """Records that a job's batch was read and will not be read again before the job is computed. Reports it if the
        coordinator waits for that. Safe from any thread."""
        with self._lock:
            is_awaited = self._queue.finish_preparing(job)
        if is_awaited:
            self._wake_signal.set()

    def finish(self, job: Job, outcomes: tuple[Outcome, ...], absent: tuple[int, ...] = ()) -> None:
        """Reports that a job is finished: in shared memory if all its numbers are finite and no gradient is missing,
        and by a message if the coordinator needs one. `absent`: parameters that got no gradient."""
        with self._lock:
            needs_message = self._queue.finish(job, outcomes, absent)
        if not absent and is_sound(outcomes):
            losses = [number for outcome in outcomes for number in (*outcome.losses, *outcome.metrics)]
            self._signals.report_finished(job.assignment.attempt, losses, self._times)
        if needs_message:
            self._wake_signal.set()

    def notify_user(self, text: str) -> None:
        """Sends the run's user a line. Safe from any thread, also before this one is started."""
        self._notices.append(text)
        self._wake_signal.set()

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
        poller.register(self._wake_signal.fileno(), zmq.POLLIN)
        again = ResendTimer()
        while True:
            events = dict(poller.poll(RESEND_MS))
            self._send_heartbeat(supervisor)
            while self._notices:
                supervisor.send(Notice(self._notices.popleft()))
            is_new = supervisor.socket in events and self._follow_coordinator(supervisor, coordinator)
            is_awaited = coordinator.socket in events and self._receive_orders(coordinator)
            is_woken = self._wake_signal.fileno() in events
            if is_woken:
                self._wake_signal.clear()
            if is_new or is_awaited or is_woken or again.due():
                self._send_report(coordinator)

    def _send_heartbeat(self, supervisor: Link) -> None:
        """Sends a heartbeat if one is due: for how long the computing thread has made no progress, in seconds."""
        now = time.monotonic()
        if now < self._next_heartbeat:
            return
        self._next_heartbeat = now + HEARTBEAT_SECONDS
        last_progress = self._last_progress
        supervisor.send(Heartbeat(0.0 if last_progress is None else now - last_progress))

    def _follow_coordinator(self, supervisor: Link, coordinator: Link) -> bool:
        """Receives the supervisor's lists of processes, and connects to a new coordinator that they name. Returns True
        if there is one."""
        is_new = False
        for message in supervisor.receive():
            if isinstance(message, Roster) and coordinator.follow(message):
                is_new = True
                with self._lock:
                    self._queue.replace_coordinator(coordinator.other.incarnation)
        return is_new

    def _receive_orders(self, coordinator: Link) -> bool:
        """Receives the coordinator's orders and puts the newest of them into the queue. Returns True if the coordinator
        waits for an answer that can be sent now."""
        orders = [message for message in coordinator.receive() if isinstance(message, WorkerOrders)]
        if not orders:
            return False
        with self._lock:
            is_awaited = self._queue.accept_orders(orders[-1])
        self._signals.wake()
        return is_awaited

    def _send_report(self, coordinator: Link) -> None:
        """Sends the coordinator the worker's report, unless a job of an earlier coordinator is in work."""
        with self._lock:
            if not self._queue.can_report:
                return
            report = WorkerReport(self._queue.reports(), self._times, self._queue.released_orders)
        coordinator.send(report)

    @property
    def _times(self) -> Times:
        return Times(**self._seconds)

    @contextmanager
    def _count_time(self, activity: Activity) -> Iterator[None]:
        """Counts the time inside as time that the worker spends on an activity, such as computing."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self._seconds[activity] += time.monotonic() - begin
