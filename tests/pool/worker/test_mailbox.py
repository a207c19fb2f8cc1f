"""A worker's mailbox in a process of its own, with real sockets; the test is its supervisor and its coordinators."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
import zmq

from pool.protocol.address import new_key
from pool.protocol.channel import Hub
from pool.protocol.identity import COORDINATOR, SUPERVISOR, WORKER, Peer
from pool.protocol.messages import Assignment, Heartbeat, Message, Roster, RosterEntry, WorkerOrders, WorkerReport
from pool.protocol.resend import RESEND_SECONDS
from tests.support.paths import ROOT

WORKER_0 = Peer(WORKER)
KEY = new_key()
SECONDS = 60  # until something that must happen is given up


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    made = zmq.Context[zmq.Socket[bytes]]()
    yield made
    made.destroy(linger=0)


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.support.programs.mailbox_alone", KEY]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def hub(context: zmq.Context[zmq.Socket[bytes]], me: Peer, worker: subprocess.Popen[str]) -> Hub:
    made = Hub(context, KEY, me)
    made.set_alive({WORKER_0: worker.pid})
    return made


def hear(hub: Hub, wanted: Callable[[Message], bool]) -> Message:
    """The first message that is wanted."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        hub.socket.poll(100)
        for _, message in hub.receive():
            if wanted(message):
                return message
    raise AssertionError(f"not heard within {SECONDS} s")


def test_what_a_worker_has_to_say_is_said_again(
    context: zmq.Context[zmq.Socket[bytes]], worker: subprocess.Popen[str]
) -> None:
    """I5, though nothing changes."""
    assert worker.poll() is None
    coordinator = hub(context, Peer(COORDINATOR), worker)
    for _ in range(2):
        hear(coordinator, lambda message: isinstance(message, WorkerReport))
    coordinator.close()


def test_orders_that_want_an_answer_get_one_without_waiting_for_the_next_repetition(
    context: zmq.Context[zmq.Socket[bytes]], worker: subprocess.Popen[str]
) -> None:
    """Twice as many as repetitions alone would answer before it is given up."""
    assert worker.poll() is None
    coordinator = hub(context, Peer(COORDINATOR), worker)
    hear(coordinator, lambda _: True)
    deadline = time.monotonic() + SECONDS
    for number in range(1, 2 * round(SECONDS / RESEND_SECONDS)):
        coordinator.send(WORKER_0, WorkerOrders(0, (), number, needs_report=True))
        hear(coordinator, lambda message: getattr(message, "settled", 0) == number)  # noqa: B023
        assert time.monotonic() < deadline, f"{number} answers in {SECONDS} s"
    coordinator.close()


def test_a_worker_is_silent_to_a_successor_until_its_batch_of_the_old_life_has_ended(
    context: zmq.Context[zmq.Socket[bytes]], worker: subprocess.Popen[str]
) -> None:
    """I4: its first word means that it reads no slot of the ring for the dead one."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    supervisor = hub(context, Peer(SUPERVISOR), worker)
    first = hub(context, Peer(COORDINATOR), worker)
    hear(first, lambda _: True)
    first.send(WORKER_0, WorkerOrders(0, (Assignment("validate", 0, (0,), -1, 1),)))
    assert worker.stdout.readline() == "begun\n"
    first.close()
    second = hub(context, Peer(COORDINATOR, 0, 2), worker)
    hear(supervisor, lambda message: isinstance(message, Heartbeat))
    entries = (RosterEntry(WORKER, 0, 1, worker.pid), RosterEntry(COORDINATOR, 0, 2, os.getpid()))
    supervisor.send(WORKER_0, Roster(entries, drain=False))
    for _ in range(4):  # heartbeats are as often as everything is said again
        hear(supervisor, lambda message: isinstance(message, Heartbeat))
    assert list(second.receive()) == []
    worker.stdin.write(os.linesep)
    worker.stdin.flush()
    report = hear(second, lambda message: isinstance(message, WorkerReport))
    assert isinstance(report, WorkerReport)
    assert report.assignments == ()
    assert worker.stdout.readline() == "finished 1\n"
    for end in (supervisor, second):
        end.close()
