"""Who is heard by a hub: the processes that the supervisor has named, and nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from pool.protocol.channel import Hub, Link
from pool.protocol.identity import COORDINATOR, WORKER, Peer
from pool.protocol.messages import Heartbeat
from tests.support.runs import ROOT
from tests.support.wait import wait_for

WORKER_0 = Peer(WORKER, 0)
COORDINATOR_2 = Peer(COORDINATOR, incarnation=2)
SPEAK = """
import sys
from pathlib import Path
import zmq
from pool.protocol.channel import Link
from pool.protocol.identity import Peer
from pool.protocol.messages import Heartbeat
context = zmq.Context()
link = Link(context, Path(sys.argv[1]), Peer("worker", 0), Peer("coordinator", 0, 2))
link.send(Heartbeat(2.0))
link.close()
context.term()
"""


class Sockets:
    """One hub, and links to it; all of them closed in the end."""

    def __init__(self, path: Path, hub: Peer) -> None:
        self.context = zmq.Context[zmq.Socket[bytes]]()
        self.path = path
        self.hub = Hub(self.context, path, hub)
        self._links: list[Link] = []

    def link(self, me: Peer, other: Peer) -> Link:
        self._links.append(Link(self.context, self.path, me, other))
        return self._links[-1]

    def close(self) -> None:
        self.hub.close()
        for link in self._links:
            link.close()
        self.context.destroy(linger=0)


@pytest.fixture
def sockets(tmp_path: Path) -> Iterator[Sockets]:
    sockets = Sockets(tmp_path / "hub", COORDINATOR_2)
    yield sockets
    sockets.close()


def heard(hub: Hub, count: int) -> list[tuple[Peer, object]]:
    """All that a hub accepts until `count` messages have been accepted or dropped."""
    found: list[tuple[Peer, object]] = []

    def enough() -> bool:
        found.extend(hub.receive())
        return len(found) + hub.drops.count >= count

    wait_for(enough, f"{count} messages", 20)
    return found


def test_a_message_from_another_process_in_a_peer_s_name_is_dropped(sockets: Sockets) -> None:
    sockets.hub.set_alive({WORKER_0: os.getpid()})
    subprocess.run([sys.executable, "-c", SPEAK, str(sockets.path)], check=True, cwd=ROOT, timeout=60)
    assert heard(sockets.hub, 1) == []
    sockets.link(WORKER_0, COORDINATOR_2).send(Heartbeat(1.0))
    assert heard(sockets.hub, 2) == [(WORKER_0, Heartbeat(1.0))]


def test_a_message_of_an_earlier_life_or_for_one_is_dropped(sockets: Sockets) -> None:
    second = Peer(WORKER, 0, 2)
    sockets.hub.set_alive({second: os.getpid()})
    for me, other in ((WORKER_0, COORDINATOR_2), (second, Peer(COORDINATOR)), (second, COORDINATOR_2)):
        sockets.link(me, other).send(Heartbeat(1.0))
    assert heard(sockets.hub, 3) == [(second, Heartbeat(1.0))]


def test_dropped_messages_are_counted_and_logged_once_a_minute(
    sockets: Sockets, caplog: pytest.LogCaptureFixture
) -> None:
    link = sockets.link(WORKER_0, COORDINATOR_2)
    for _ in range(50):
        link.send(Heartbeat(1.0))
    assert heard(sockets.hub, 50) == []
    assert sockets.hub.drops.count == 50
    assert len(caplog.records) == 1


def test_what_is_no_message_at_all_is_dropped(sockets: Sockets) -> None:
    sockets.hub.set_alive({WORKER_0: os.getpid()})
    with sockets.context.socket(zmq.DEALER) as stranger:
        stranger.connect(f"ipc://{sockets.path}")
        stranger.send(b"\xff" * 100)
        stranger.send_multipart([b"one", b"two"])
        assert heard(sockets.hub, 2) == []
