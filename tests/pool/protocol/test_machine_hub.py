"""Sockets between machines: who has the key is heard, also after a connection was lost; nobody else is."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from pool.machines.key import read_key, write_key
from pool.protocol.identity import MACHINE, Peer
from pool.protocol.machine_hub import MachineHub
from pool.protocol.messages import BucketSums, Message, ShareReport
from tests.support.wait import wait_for

Make = Callable[..., MachineHub]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes hubs, by index; with the same key, unless another is given."""
    context = zmq.Context[zmq.Socket[bytes]]()
    hubs: list[MachineHub] = []
    write_key(tmp_path / "run.key")

    def made(index: int, key: str | None = None) -> MachineHub:
        me = Peer(MACHINE, index, 1)
        hubs.append(
            MachineHub(context, key or read_key(tmp_path / "run.key"), me, "127.0.0.1", max_frame_nbytes=1 << 20)
        )
        return hubs[-1]

    yield made
    for hub in hubs:
        hub.close()
    context.term()


def heard(hub: MachineHub, *others: MachineHub) -> Callable[[], bool]:
    """True when something has come to `hub`; it is left there."""

    def look() -> bool:
        for each in (hub, *others):
            each.poll_connections()
        return hub._socket.poll(10) > 0

    return look


def take(hub: MachineHub) -> list[tuple[int, Message, list[bytes]]]:
    return [(peer.index, message, [bytes(frame) for frame in frames]) for peer, message, frames in hub.receive()]


def test_what_was_said_before_there_was_a_connection_comes(make: Make) -> None:
    one, other = make(0), make(1)
    one.broadcast(4, ShareReport(4, ()), [b"abc", b""])
    one.connect({other.me: other.address})
    wait_for(heard(other, one), "the message", 20)
    assert take(other) == [(0, ShareReport(4, ()), [b"abc", b""])]


def test_what_is_kept_comes_again_to_a_successor_and_what_is_forgotten_does_not(make: Make) -> None:
    one, other = make(0), make(1)
    one.connect({other.me: other.address})
    for step in range(3):
        one.broadcast(step, ShareReport(step, ()))
    wait_for(heard(other, one), "a message", 20)
    one.discard_below(2)
    successor = make(1)
    one.connect({Peer(MACHINE, 1, 2): successor.address})
    wait_for(heard(successor, one), "the message", 20)
    assert [message for _, message, _ in take(successor)] == [ShareReport(2, ())]


def test_who_is_connected_anew_leaves_no_closed_socket_to_poll(make: Make) -> None:
    """A poller takes a closed socket for standard input, and never waits if that is at its end."""
    one = make(0)
    poller = zmq.Poller()
    one.watch(poller)
    for life in range(1, 4):
        one.connect({Peer(MACHINE, 1, life): make(1).address})
        assert [socket for socket, _ in poller.sockets if socket.closed] == []
        assert len(poller.sockets) == 2
    one.close()
    assert poller.sockets == []


def test_a_connection_that_breaks_is_made_anew_with_what_is_kept(make: Make) -> None:
    """Through a relay that is cut: bytes on their way are lost."""
    one, other = make(0), make(1)
    port = int(other.address.rpartition(":")[2])
    with Relay(port) as relay:
        one.connect({other.me: f"tcp://127.0.0.1:{relay.port}"})
        one.broadcast(0, ShareReport(0, ()))

        def first() -> bool:
            relay.carry()
            return heard(other, one)()

        wait_for(first, "the first message", 20)
        take(other)
        relay.cut()
        one.broadcast(1, BucketSums(1, 0, ()), [b"x" * 1000])
        wait_for(first, "all that is kept", 20)
        found = take(other)
    assert (0, BucketSums(1, 0, ()), [b"x" * 1000]) in found


class Relay:
    """Carries bytes between connections to its port and those that it makes to another."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        self._listener.close()

    def carry(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except BlockingIOError:
            pass
        else:
            outward = socket.create_connection(("127.0.0.1", self._target))
            for each in (accepted, outward):
                each.setblocking(False)
            self._pairs.append((accepted, outward))
        for one, other in [pair for left, right in self._pairs for pair in ((left, right), (right, left))]:
            try:
                data = one.recv(1 << 16)
            except OSError:
                continue
            if data:
                other.setblocking(True)
                other.sendall(data)
                other.setblocking(False)

    def cut(self) -> None:
        for pair in self._pairs:
            for each in pair:
                each.close()
        self._pairs = []


def test_without_the_key_nobody_is_heard(make: Make, tmp_path: Path) -> None:
    write_key(tmp_path / "another.key")
    one, other, stranger = make(0), make(1), make(2, read_key(tmp_path / "another.key"))
    for hub in (one, stranger):
        hub.broadcast(0, ShareReport(0, ()))
        hub.connect({other.me: other.address})
    wait_for(heard(other, one, stranger), "the message", 20)
    assert [index for index, _, _ in take(other)] == [0]
    assert not heard(other, one, stranger)()


def test_random_bytes_and_idle_connections_change_nothing(make: Make) -> None:
    one, other = make(0), make(1)
    port = int(other.address.rpartition(":")[2])
    draw = random.Random(3)
    strangers = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
    for number, stranger in enumerate(strangers[:40]):
        stranger.sendall((b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f", b"GET / HTTP/1.1\r\n\r\n", b"")[number % 3])
        with contextlib.suppress(OSError):  # the hub may have ended the connection
            stranger.sendall(draw.randbytes(draw.randint(1, 5000)))
    one.broadcast(0, ShareReport(0, ()), [b"numbers"])
    one.connect({other.me: other.address})
    wait_for(heard(other, one), "the message", 20)
    assert take(other) == [(0, ShareReport(0, ()), [b"numbers"])]
    for stranger in strangers:
        stranger.close()


def test_frames_beyond_the_largest_end_the_connection_not_the_process(make: Make) -> None:
    one, other = make(0), make(1)
    one.broadcast(0, ShareReport(0, ()), [bytes(3 << 20)])
    one.connect({other.me: other.address})
    for _ in range(20):
        assert not heard(other, one)()
    one.discard_below(1)
    one.broadcast(1, ShareReport(1, ()))
    wait_for(heard(other, one), "the next", 20)
    assert [message for _, message, _ in take(other)][-1] == ShareReport(1, ())
