"""Connects processes of different machines by encrypted TCP sockets.

Supervisors exchange messages with supervisors, coordinators with coordinators. Each of these processes has one
`MachineHub`, which listens at a port of its own and sends to the hubs of the other machines. The run's key encrypts and
authenticates everything (CURVE), so nothing is received from a process without the key. A message is an envelope, as
between the processes of one machine, followed by any number of frames with plain numbers.

TCP may lose messages when a connection breaks. After a reconnection, all messages that the other machine may lack are
sent again: those that `MachineHub.keep` has kept. Receiving a message twice changes nothing (I5).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import zmq
from zmq.utils.monitor import recv_monitor_message

from pool.errors import ProtocolError, UnavailableError
from pool.protocol.channel import Drops
from pool.protocol.codec import MAX_BYTES, Envelope, decode, encode
from pool.protocol.identity import Peer
from pool.protocol.messages import Message
from pool.protocol.tcp_endpoint import bracketed, with_scope_of, without_scope

log = logging.getLogger(__name__)

Frames = Sequence[bytes | memoryview]

_RECONNECT_MS = (50, 1000)  # first and longest pause before the next attempt to connect
_HEARTBEAT_MS = (2000, 10000)  # between two heartbeats; silence after which the connection is made anew


@dataclass
class _Other:
    """Holds the connection to the hub of another machine."""

    peer: Peer
    address: str
    socket: zmq.Socket[bytes]
    monitor: zmq.Socket[bytes]
    connected: bool = False


@dataclass
class MachineHub:
    """Receives from all other machines at one port, and has a sending socket for each.

    `key`: of the run; `host`: the address to listen at; `port`: 0 for any that is free; `most_bytes`: longest frame.
    Raises UnavailableError if the port can't be had.
    """

    context: zmq.Context[zmq.Socket[bytes]]
    key: str = field(repr=False)
    me: Peer
    host: str
    port: int = 0
    most_bytes: int = MAX_BYTES

    def __post_init__(self) -> None:
        self._public = zmq.curve_public(self.key.encode())
        self._sent = 0
        self._others: dict[int, _Other] = {}
        self._kept: dict[int, list[list[bytes | memoryview]]] = {}  # messages to resend, by the number given to `keep`
        self.drops = Drops()
        self._poller: zmq.Poller | None = None
        self._socket = self.context.socket(zmq.PULL)
        self._prepare(self._socket)
        self._socket.setsockopt(zmq.CURVE_SERVER, 1)
        self._socket.setsockopt(zmq.CURVE_SECRETKEY, self.key.encode())
        self._socket.setsockopt(zmq.MAXMSGSIZE, max(self.most_bytes, MAX_BYTES))
        at = bracketed(self.host)
        try:
            self._socket.bind(f"tcp://{at}:{self.port or '*'}")
        except zmq.ZMQError as error:
            self._socket.close(0)
            why = os.strerror(error.errno or 0)
            raise UnavailableError(f"can't listen at {at}:{self.port or 'any port'}: {why.lower()}") from None

    def watch(self, poller: zmq.Poller) -> None:
        """Registers the hub's sockets with a poller, in place of an earlier one. The poller then tells when to call
        `look` and `receive`."""
        self._forget_poller()
        self._poller = poller
        for socket in self._sockets:
            poller.register(socket, zmq.POLLIN)

    @property
    def _sockets(self) -> list[zmq.Socket[bytes]]:
        """Returns the sockets to poll: the one that receives messages, and for each connection one that reports when it
        is made or lost."""
        return [self._socket, *(other.monitor for other in self._others.values())]

    def _forget_poller(self) -> None:
        if self._poller is not None:
            for socket in self._sockets:
                self._poller.unregister(socket)
            self._poller = None

    @property
    def address(self) -> str:
        """Returns the endpoint at which other machines reach this hub."""
        return without_scope(self._socket.getsockopt_string(zmq.LAST_ENDPOINT))

    def is_connected(self, machine: int) -> bool:
        """Tells whether there is a connection to send to a machine, as of the last `look`."""
        return machine in self._others and self._others[machine].connected

    @property
    def unconnected(self) -> dict[int, str]:
        """Returns the endpoints of the machines to which there is no connection, by index of the machine."""
        return {index: other.address for index, other in self._others.items() if not other.connected}

    def connect(self, addresses: Mapping[Peer, str]) -> None:
        """Connects to the hubs of other machines, by their endpoints. A new incarnation or a new address replaces the
        earlier connection of the same index."""
        for peer, given in addresses.items():
            address = with_scope_of(self.host, given)
            other = self._others.get(peer.index)
            if other is not None and (other.peer, other.address) == (peer, address):
                continue
            if other is not None:
                self._drop(other)
            socket = self.context.socket(zmq.PUSH)
            self._prepare(socket)
            socket.setsockopt(zmq.CURVE_SERVERKEY, self._public)
            socket.setsockopt(zmq.CURVE_PUBLICKEY, self._public)
            socket.setsockopt(zmq.CURVE_SECRETKEY, self.key.encode())
            socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS[0])
            socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_MS[1])
            socket.setsockopt(zmq.IMMEDIATE, 1)  # nothing waits in a connection that is not there: it is kept here
            monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
            self._others[peer.index] = _Other(peer, address, socket, monitor)
            if self._poller is not None:
                self._poller.register(monitor, zmq.POLLIN)
            socket.connect(address)

    def look(self) -> None:
        """Notes which connections were made or lost. Sends all kept messages over each new connection."""
        for other in self._others.values():
            while other.monitor.poll(0):
                other.connected = recv_monitor_message(other.monitor)["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED
                if other.connected:
                    log.info("connected to %s at %s", other.peer, other.address)
                    for frames in [frames for kept in self._kept.values() for frames in kept]:
                        self._send(other, frames)

    def keep(self, what: int, message: Message, frames: Frames = ()) -> None:
        """Sends a message to all other machines, and keeps it to send again after a reconnection, until `forget`.

        `what`: number under which the message is kept, such as a step. The memory of the frames must not change while
        they are kept.
        """
        self._sent += 1
        kept = [encode(Envelope(self.me, self.me, self._sent, message)), *frames]
        self._kept.setdefault(what, []).append(kept)
        for other in self._others.values():
            if other.connected:
                self._send(other, kept)

    def forget(self, before: int) -> None:
        """Drops the messages that were kept under numbers below `before`, which no machine needs any more."""
        for what in [what for what in self._kept if what < before]:
            del self._kept[what]

    def send(self, machine: int, message: Message, frames: Frames = ()) -> None:
        """Sends a message to one machine if there is a connection. A lost message is not repeated: the next one makes
        up for it."""
        if (other := self._others.get(machine)) is not None and other.connected:
            self._sent += 1
            self._send(other, [encode(Envelope(self.me, other.peer, self._sent, message)), *frames])

    def receive(self) -> Iterator[tuple[Peer, Message, list[memoryview]]]:
        """Yields all queued messages without blocking: the sender, the message, and the frames that follow it."""
        while True:
            try:
                envelope, *frames = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            try:
                decoded = decode(envelope.bytes)
            except ProtocolError as error:
                self.drops.add(str(error))
                continue
            yield decoded.sender, decoded.message, [frame.buffer for frame in frames]

    def close(self, linger_ms: int = 0) -> None:
        """Closes all sockets. `linger_ms`: milliseconds in which messages sent earlier may still leave."""
        self._forget_poller()
        for other in self._others.values():
            self._drop(other, linger_ms)
        self._others.clear()
        self._socket.close(0)

    def _drop(self, other: _Other, linger_ms: int = 0) -> None:
        """Closes the connection to another machine."""
        if self._poller is not None:  # a poller would take a closed socket for standard input
            self._poller.unregister(other.monitor)
        other.socket.disable_monitor()
        other.monitor.close(0)
        other.socket.close(linger_ms)

    def _send(self, other: _Other, frames: Sequence[bytes | memoryview]) -> None:
        try:
            other.socket.send_multipart(frames, zmq.NOBLOCK, copy=False)
        except zmq.Again:
            other.connected = False  # `look` sends kept messages when there is a connection again

    def _prepare(self, socket: zmq.Socket[bytes]) -> None:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SNDHWM, 0)
        socket.setsockopt(zmq.RCVHWM, 0)
        socket.setsockopt(zmq.IPV6, ":" in self.host)
        socket.setsockopt(zmq.HANDSHAKE_IVL, 5000)
        socket.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS[0])
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_MS[1])
        socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
