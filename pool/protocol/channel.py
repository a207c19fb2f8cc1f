"""Wraps the sockets between the processes of one machine: a Hub that others connect to, and a Link that connects to a
hub.

A hub is a ROUTER socket, a link a DEALER socket, both over abstract ipc:// addresses (`pool.protocol.address`). No
other module sees the zmq sockets of these channels. Sending never blocks. Both accept messages only from peers
(processes by role, index and incarnation) that are alive, in each peer's order, from this user, and from the pid that
the supervisor has named; the kernel tells user and pid. All other messages are counted, logged once a minute, and
dropped.
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

HIGH_WATER = 10_000  # messages in a queue; a full queue is a bug, not a state to handle
LOG_SECONDS = 60.0  # between two lines about dropped messages
LINGER_MS = 500  # to send what is queued at an orderly end


def _set_options(socket: zmq.Socket[bytes]) -> None:
    """Sets the options that hubs and links have in common: limits of queues and messages, no waiting at close."""
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, HIGH_WATER)
    socket.setsockopt(zmq.RCVHWM, HIGH_WATER)
    socket.setsockopt(zmq.MAXMSGSIZE, MAX_BYTES)
    socket.setsockopt(zmq.HANDSHAKE_IVL, 2000)


def _sender(frame: zmq.Frame) -> tuple[int, int]:
    """Returns user id and process id of the process that sent a frame.

    The kernel vouches for both (SO_PEERCRED). libzmq passes them on in Peer-Address, `localhost:uid:gid:pid`.
    """
    _, uid, _, pid = str(frame.get("Peer-Address")).rsplit(":", 3)
    return int(uid), int(pid)


def _check_origin(frame: zmq.Frame, envelope: Envelope, pid: int) -> str:
    """Checks that a message comes from the process `pid` of this user. Returns the reason to drop the message, or an
    empty string."""
    sender_uid, sender_pid = _sender(frame)
    if (sender_uid, sender_pid) == (os.geteuid(), pid):
        return ""
    kind = type(envelope.message).__name__
    return f"{kind} in the name of {envelope.sender} from process {sender_pid} of user {sender_uid}"


class Drops:
    """Counts dropped messages and logs at most one a minute."""

    def __init__(self) -> None:
        self.count = 0
        self._next_log = 0.0

    def add(self, reason: str) -> None:
        """Counts a dropped message, with the reason for the log."""
        self.count += 1
        now = time.monotonic()
        if now >= self._next_log:
            self._next_log = now + LOG_SECONDS
            log.warning("message dropped, number %d: %s", self.count, reason)


def _first_sequence() -> int:
    """Returns a sequence number that is higher than any of an earlier socket of the same process."""
    return time.monotonic_ns()


def _receive_queued(
    socket: zmq.Socket[bytes], num_frames: int, drops: Drops
) -> Iterator[tuple[Sequence[zmq.Frame], Envelope]]:
    """Yields the messages in a socket's queue without blocking: the frames, and the envelope decoded from the last
    frame. Messages that can't be decoded are dropped."""
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
    """Receives from and sends to many peers that connect to one address."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], key: str, me: Peer) -> None:
        """Binds a socket to the address of `me`. `key`: secret from which the run's addresses are made."""
        self.me = me
        self.drops = Drops()
        self._admission = Admission(me)
        self._pids: dict[Peer, int] = {}
        self._routes: dict[Peer, bytes] = {}
        self._sent = _first_sequence()
        self._socket = context.socket(zmq.ROUTER)
        _set_options(self._socket)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.setsockopt(zmq.IPC_FILTER_UID, os.geteuid())
        self._socket.bind(address(key, me))

    @property
    def socket(self) -> zmq.Socket[bytes]:
        """Returns the socket for a poller. It is readable when `receive` has a message."""
        return self._socket

    def set_alive(self, peers: Mapping[Peer, int]) -> None:
        """Sets the peers whose messages are accepted from now on, with the process id of each."""
        self._admission.set_alive(peers)
        self._pids = dict(peers)
        self._routes = {peer: route for peer, route in self._routes.items() if peer in peers}

    def receive(self) -> Iterator[tuple[Peer, Message]]:
        """Yields all queued messages with their senders, without blocking."""
        for (route, body), envelope in _receive_queued(self._socket, 2, self.drops):
            sender = envelope.sender
            refusal = ""
            if sender in self._pids:
                refusal = _check_origin(body, envelope, self._pids[sender])
            if not refusal:
                refusal = self._admission.refusal(envelope)
            if refusal:
                self.drops.add(refusal)
            else:
                self._routes[sender] = route.bytes
                yield sender, envelope.message

    def send(self, peer: Peer, message: Message) -> bool:
        """Sends a message to a peer, without blocking. Returns False if the peer has sent nothing yet or is gone.

        A message that can't be sent is not queued. The caller resends the whole state later.
        """
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
        """Closes the socket after sending what is queued, within LINGER_MS."""
        self._socket.close(LINGER_MS)


class Link:
    """Exchanges messages with one hub."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], key: str, me: Peer, other: Peer, other_pid: int | None
    ) -> None:
        """Connects `me` to the hub of `other`.

        `key`: secret from which the run's addresses are made; `other_pid`: process id of the hub's process. While that
        is None no message is accepted; `follow` sets it from a roster.
        """
        self.me = me
        self.other = other
        self._other_pid = other_pid
        self._key = key
        self.drops = Drops()
        self._admission = Admission(me, (other,))
        self._sent = _first_sequence()
        self._socket = context.socket(zmq.DEALER)
        _set_options(self._socket)
        identity = f"{me.role}.{me.index}.{me.incarnation}.".encode() + os.urandom(8).hex().encode()
        self._socket.setsockopt(zmq.ROUTING_ID, identity)
        self._socket.setsockopt(zmq.RECONNECT_IVL, 10)
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, 500)
        self._socket.connect(address(key, other))

    @property
    def socket(self) -> zmq.Socket[bytes]:
        """Returns the socket for a poller. It is readable when `receive` has a message."""
        return self._socket

    def follow(self, roster: Roster) -> bool:
        """Connects to the hub's successor if the roster has one, and stores the process id of the hub. Returns whether
        there was a successor."""
        successor = next_incarnation(self.other, roster)
        if successor is not None:
            self._socket.disconnect(address(self._key, self.other))
            self._socket.connect(address(self._key, successor))
            self.other = successor
            self._admission.set_alive((successor,))
        self._other_pid = roster.pids().get(self.other, self._other_pid)
        return successor is not None

    def receive(self) -> Iterator[Message]:
        """Yields all queued messages of the hub, without blocking."""
        for (body,), envelope in _receive_queued(self._socket, 1, self.drops):
            if self._other_pid is None:
                kind = type(envelope.message).__name__
                refusal = f"{kind} before a roster said which process {self.other} is"
            else:
                refusal = _check_origin(body, envelope, self._other_pid)
            if not refusal:
                refusal = self._admission.refusal(envelope)
            if refusal:
                self.drops.add(refusal)
            else:
                yield envelope.message

    def send(self, message: Message) -> bool:
        """Sends a message to the hub, without blocking. Returns False if the queue is full; the next message repeats
        the state."""
        self._sent += 1
        try:
            self._socket.send(encode(Envelope(self.me, self.other, self._sent, message)), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def close(self) -> None:
        """Closes the socket after sending what is queued, within LINGER_MS."""
        self._socket.close(LINGER_MS)
