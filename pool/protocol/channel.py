"""Sockets: a Hub that others connect to, and a Link to one. Nothing else in the project sees zmq sockets.

A hub is a ROUTER, a link a DEALER, both over abstract ipc:// addresses (`address`). Sending never blocks. Both accept
messages only from peers that are alive, in each peer's order, and only from this user and the pid that the supervisor
has named (the kernel tells both). All others are counted, logged once a minute, and dropped.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence

import zmq

from pool.errors import ProtocolError
from pool.protocol.address import address
from pool.protocol.admission import Admission, next_incarnation
from pool.protocol.codec import MAX_BYTES, Envelope, decode, encode
from pool.protocol.identity import Peer
from pool.protocol.messages import Message, Roster

log = logging.getLogger(__name__)

HIGH_WATER = 10_000  # messages; reaching it is a bug, not a condition
LOG_SECONDS = 60.0  # between two lines about dropped messages
LINGER_MS = 500  # at an orderly end; a killed process lingers not at all


def _prepare(socket: zmq.Socket[bytes]) -> None:
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, HIGH_WATER)
    socket.setsockopt(zmq.RCVHWM, HIGH_WATER)
    socket.setsockopt(zmq.MAXMSGSIZE, MAX_BYTES)
    socket.setsockopt(zmq.HANDSHAKE_IVL, 2000)


def _sender(frame: zmq.Frame) -> tuple[int, int]:
    """Uid and pid of the other end, as the kernel said them (SO_PEERCRED): libzmq's Peer-Address is
    `localhost:uid:gid:pid`."""
    _, uid, _, pid = str(frame.get("Peer-Address")).rsplit(":", 3)
    return int(uid), int(pid)


def _forged(frame: zmq.Frame, envelope: Envelope, pid: int) -> str:
    """Why a message is not of the process `pid` of this user; empty if it is."""
    sender = _sender(frame)
    if sender == (os.geteuid(), pid):
        return ""
    kind = type(envelope.message).__name__
    return f"{kind} in the name of {envelope.sender} from process {sender[1]} of user {sender[0]}"


class Drops:
    """Messages that were dropped: all are counted, one is logged a minute."""

    def __init__(self) -> None:
        self.count = 0
        self._next_log = 0.0

    def add(self, why: str) -> None:
        self.count += 1
        if (now := time.monotonic()) >= self._next_log:
            self._next_log = now + LOG_SECONDS
            log.warning("message dropped, number %d: %s", self.count, why)


def _first_sequence() -> int:
    """Later than every number of an earlier socket of the same process."""
    return time.monotonic_ns()


def _waiting(
    socket: zmq.Socket[bytes], num_frames: int, drops: Drops
) -> Iterator[tuple[Sequence[zmq.Frame], Envelope]]:
    """Yields the messages that are waiting, without blocking: frames, and the envelope in the last of them."""
    while True:
        try:
            frames = socket.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return
        try:
            if len(frames) != num_frames:
                raise ProtocolError(f"message of {len(frames)} frames instead of {num_frames}")
            envelope = decode(frames[-1].bytes)
        except ProtocolError as error:
            drops.add(str(error))
        else:
            yield frames, envelope


class Hub:
    """The bound end: one per address, many peers."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], key: str, me: Peer) -> None:
        """`key`: of the run's addresses."""
        self.me = me
        self.drops = Drops()
        self._admission = Admission(me)
        self._pids: dict[Peer, int] = {}
        self._routes: dict[Peer, bytes] = {}
        self._sent = _first_sequence()
        self._socket = context.socket(zmq.ROUTER)
        _prepare(self._socket)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.setsockopt(zmq.IPC_FILTER_UID, os.geteuid())
        self._socket.bind(address(key, me))

    @property
    def socket(self) -> zmq.Socket[bytes]:
        """The descriptor for a poller; readable when `receive` has something."""
        return self._socket

    def set_alive(self, peers: Mapping[Peer, int]) -> None:
        """Whose messages count from now on, and the pid of each."""
        self._admission.set_alive(peers)
        self._pids = dict(peers)
        self._routes = {peer: route for peer, route in self._routes.items() if peer in peers}

    def receive(self) -> Iterator[tuple[Peer, Message]]:
        """All messages that are waiting, without blocking."""
        for frames, envelope in _waiting(self._socket, 2, self.drops):
            sender = envelope.sender
            forged = _forged(frames[1], envelope, self._pids[sender]) if sender in self._pids else ""
            if refusal := forged or self._admission.refusal(envelope):
                self.drops.add(refusal)
            else:
                self._routes[sender] = frames[0].bytes
                yield sender, envelope.message

    def send(self, peer: Peer, message: Message) -> bool:
        """False if the peer has sent nothing yet or is gone; state is resent when it is back."""
        route = self._routes.get(peer)
        if route is None:
            return False
        self._sent += 1
        data = encode(Envelope(self.me, peer, self._sent, message))
        try:
            self._socket.send_multipart([route, data], zmq.NOBLOCK)
        except (zmq.Again, zmq.ZMQError) as error:
            log.debug("%s not sent to %s: %s", type(message).__name__, peer, error)
            return False
        return True

    def close(self) -> None:
        self._socket.close(LINGER_MS)


class Link:
    """The connecting end."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], key: str, me: Peer, other: Peer, other_pid: int | None
    ) -> None:
        """`other_pid`: None until a roster names it; until then no message is received."""
        self.me = me
        self.other = other
        self._other_pid = other_pid
        self._key = key
        self.drops = Drops()
        self._admission = Admission(me, (other,))
        self._sent = _first_sequence()
        self._socket = context.socket(zmq.DEALER)
        _prepare(self._socket)
        identity = f"{me.role}.{me.index}.{me.incarnation}.".encode() + os.urandom(8).hex().encode()
        self._socket.setsockopt(zmq.ROUTING_ID, identity)
        self._socket.setsockopt(zmq.RECONNECT_IVL, 10)
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, 500)
        self._socket.connect(address(key, other))

    @property
    def socket(self) -> zmq.Socket[bytes]:
        """The descriptor for a poller; readable when `receive` has something."""
        return self._socket

    def follow(self, roster: Roster) -> bool:
        """Turns to the next incarnation of the other end; True if the roster has one."""
        successor = next_incarnation(self.other, roster)
        if successor is not None:
            self._socket.disconnect(address(self._key, self.other))
            self._socket.connect(address(self._key, successor))
            self.other = successor
            self._admission.set_alive((successor,))
        self._other_pid = roster.pids().get(self.other) or self._other_pid
        return successor is not None

    def receive(self) -> Iterator[Message]:
        """All messages that are waiting, without blocking."""
        for frames, envelope in _waiting(self._socket, 1, self.drops):
            if self._other_pid is None:
                self.drops.add(f"{type(envelope.message).__name__} before a roster said which process {self.other} is")
            elif refusal := _forged(frames[0], envelope, self._other_pid) or self._admission.refusal(envelope):
                self.drops.add(refusal)
            else:
                yield envelope.message

    def send(self, message: Message) -> bool:
        """False if it can't be queued; the next message repeats the state."""
        self._sent += 1
        try:
            self._socket.send(encode(Envelope(self.me, self.other, self._sent, message)), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def close(self) -> None:
        """Sends what is queued, within LINGER_MS."""
        self._socket.close(LINGER_MS)
