"""Who is heard by hubs and links: the processes that the supervisor has named, and nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import zmq

from pool.protocol.address import address, new_key
from pool.protocol.channel import Hub, Link
from pool.protocol.identity import COORDINATOR, SUPERVISOR, WORKER, Peer
from pool.protocol.messages import Heartbeat, Message, Roster, RosterEntry
from tests.support.paths import ROOT
from tests.support.wait import wait_for

WORKER_0 = Peer(WORKER, 0)
COORDINATOR_2 = Peer(COORDINATOR, incarnation=2)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
SPEAK = """
import sys
import zmq
from pool.protocol.channel import Link
from pool.protocol.identity import Peer
from pool.protocol.messages import Heartbeat
context = zmq.Context()
link = Link(context, sys.argv[1], Peer("worker", 0), Peer("coordinator", 0, 2), None)
link.send(Heartbeat(2.0))
link.close()
context.term()
"""
# Whoever has the address of a coordinator's next life before that does: sends orders to who connects.
IMPOSTOR = """
import os, sys
import zmq
from pool.protocol.codec import Envelope, encode
from pool.protocol.identity import Peer
from pool.protocol.messages import Heartbeat
os.setuid(int(sys.argv[2]))
hub = zmq.Context().socket(zmq.ROUTER)
hub.bind(sys.argv[1])
print("bound", flush=True)
route, _ = hub.recv_multipart()
hub.send_multipart([route, encode(Envelope(Peer("coordinator", 0, 2), Peer("worker", 0), 1 << 62, Heartbeat(2.0)))])
sys.stdin.readline()
"""


class Sockets:
    """One hub, and links to it; all of them closed in the end."""

    def __init__(self, hub: Peer) -> None:
        self.context = zmq.Context[zmq.Socket[bytes]]()
        self.key = new_key()
        self.hub = Hub(self.context, self.key, hub)
        self._links: list[Link] = []

    def link(self, me: Peer, other: Peer, other_pid: int | None = None) -> Link:
        self._links.append(Link(self.context, self.key, me, other, other_pid))
        return self._links[-1]

    def close(self) -> None:
        self.hub.close()
        for link in self._links:
            link.close()
        self.context.destroy(linger=0)


@pytest.fixture
def sockets() -> Iterator[Sockets]:
    sockets = Sockets(COORDINATOR_2)
    yield sockets
    sockets.close()


def heard(hub: Hub, count: int) -> list[tuple[Peer, object]]:
    """All that a hub accepts until `count` messages have been accepted or dropped."""
    found: list[tuple[Peer, object]] = []

    def enough() -> bool:
        found.extend(hub.receive())
        return len(found) + hub.drops.count >= count

    wait_for(enough, f"{count} messages")
    return found


def test_a_message_from_another_process_in_a_peer_s_name_is_dropped(sockets: Sockets) -> None:
    sockets.hub.set_alive({WORKER_0: os.getpid()})
    subprocess.run([sys.executable, "-c", SPEAK, sockets.key], check=True, cwd=ROOT, timeout=60)
    assert heard(sockets.hub, 1) == []
    sockets.link(WORKER_0, COORDINATOR_2).send(Heartbeat(1.0))
    assert heard(sockets.hub, 2) == [(WORKER_0, Heartbeat(1.0))]


def test_a_message_of_an_earlier_life_or_for_one_is_dropped(sockets: Sockets) -> None:
    second = Peer(WORKER, 0, 2)
    sockets.hub.set_alive({second: os.getpid()})
    for me, other in ((WORKER_0, COORDINATOR_2), (second, Peer(COORDINATOR)), (second, COORDINATOR_2)):
        link = sockets.link(me, COORDINATOR_2)
        link.other = other
        link.send(Heartbeat(1.0))
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
        stranger.connect(address(sockets.key, COORDINATOR_2))
        stranger.send(b"\xff" * 100)
        stranger.send_multipart([b"one", b"two"])
        assert heard(sockets.hub, 2) == []


def answered(sockets: Sockets, link: Link, drops: int) -> list[Message]:
    """All that a link accepts until that is one message, or `drops` were dropped; the hub answers each it hears."""
    found: list[Message] = []

    def enough() -> bool:
        for peer, _ in sockets.hub.receive():
            sockets.hub.send(peer, Heartbeat(3.0))
        found.extend(link.receive())
        return bool(found) or link.drops.count >= drops

    wait_for(enough, "an answer")
    return found


def test_a_link_hears_the_process_that_it_was_told_or_that_a_roster_names(sockets: Sockets) -> None:
    sockets.hub.set_alive({WORKER_0: os.getpid()})
    link = sockets.link(WORKER_0, COORDINATOR_2, os.getpid())
    link.send(Heartbeat(1.0))
    assert answered(sockets, link, 1) == [Heartbeat(3.0)]
    untold = sockets.link(WORKER_0, COORDINATOR_2)
    untold.send(Heartbeat(1.0))
    assert answered(sockets, untold, 1) == []
    assert not untold.follow(Roster((RosterEntry(COORDINATOR, 0, 2, os.getpid()),), drain=False))
    untold.send(Heartbeat(1.0))
    assert answered(sockets, untold, 2) == [Heartbeat(3.0)]


@pytest.mark.parametrize("uid", [os.getuid(), pytest.param(65_534, marks=needs_root)])
def test_a_link_hears_nobody_else_at_the_address_of_the_other_end(uid: int, sockets: Sockets) -> None:
    """What another process says there could be orders."""
    sockets.hub.close()
    words = [sys.executable, "-c", IMPOSTOR, address(sockets.key, COORDINATOR_2), str(uid)]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as impostor:
        assert impostor.stdout is not None
        assert impostor.stdout.readline() == "bound\n"
        link = sockets.link(WORKER_0, COORDINATOR_2, os.getpid())
        link.send(Heartbeat(1.0))
        wait_for(lambda: bool(list(link.receive())) or link.drops.count > 0, "the impostor's orders")
        impostor.kill()
    assert link.drops.count == 1


def test_an_address_is_of_one_life_of_one_hub_in_one_run() -> None:
    """And can't be told without the key, or somebody else could be there first."""
    keys = new_key(), new_key()
    peers = Peer(COORDINATOR), COORDINATOR_2, Peer(SUPERVISOR)
    assert len({address(key, peer) for key in keys for peer in peers}) == 6
