"""Connects processes of different machines by encrypted TCP sockets.

Supervisors exchange messages with supervisors, coordinators with coordinators. Each of these processes has one
`MachineHub`, which listens at a port of its own and sends to the hubs of the other machines. The run's key encrypts and
authenticates everything (CURVE), so nothing is received from a process without the key. A message is an envelope, as
between the processes of one machine, followed by any number of frames with plain numbers.

TCP may lose messages when a connection breaks. After a reconnection, all messages that the other machine may lack are
sent again: those that were sent by `MachineHub.broadcast`. Receiving a message twice changes nothing (I5).
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
class _Connection:
    """Holds the connection to the hub of another machine."""

    peer: Peer
    address: str
    socket: zmq.Socket[bytes]
    monitor: zmq.Socket[bytes]  # reports when the connection is made or lost
    is_connected: bool = False


@dataclass
class MachineHub:
    """Receives from all other machines at one port, and has a sending socket for each.

    `key`: of the run; `host`: the address to listen at; `port`: 0 for any that is free; `max_frame_nbytes`: longest
    frame. Raises UnavailableError if the port can't be had.
    """

    context: zmq.Context[zmq.Socket[bytes]]
    key: str = field(repr=False)
    me: Peer
    host: str
    port: int = 0
    max_frame_nbytes: int = MAX_BYTES

    def __post_init__(self) -> None:
        self._public = zmq.curve_public(self.key.encode())
        self._sent = 0
        self._connections: dict[int, _Connection] = {}  # by index of the machine
        self._retained: dict[int, list[list[bytes | memoryview]]] = {}  # messages to resend, by step
        self.drops = Drops()
        self._poller: zmq.Poller | None = None
        self._socket = self.context.socket(zmq.PULL)
        self._prepare(self._socket)
        self._socket.setsockopt(zmq.CURVE_SERVER, 1)
        self._socket.setsockopt(zmq.CURVE_SECRETKEY, self.key.encode())
        self._socket.setsockopt(zmq.MAXMSGSIZE, max(self.max_frame_nbytes, MAX_BYTES))
        host = bracketed(self.host)
        try:
            self._socket.bind(f"tcp://{host}:{self.port or '*'}")
        except zmq.ZMQError as error:
            self._socket.close(0)
            reason = os.strerror(error.errno or 0).lower()
            raise UnavailableError(f"can't listen at {host}:{self.port or 'any port'}: {reason}") from None

    def watch(self, poller: zmq.Poller) -> None:
        """Registers the hub's sockets with a poller, in place of an earlier one. An event of the poller tells when to
        call `poll_connections` and `receive`."""
        self._forget_poller()
        self._poller = poller
        for socket in self._sockets:
            poller.register(socket, zmq.POLLIN)

    @property
    def _sockets(self) -> list[zmq.Socket[bytes]]:
        """Returns the sockets to poll: the one that receives messages, and the monitor of each connection."""
        return [self._socket, *(connection.monitor for connection in self._connections.values())]

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
        """Tells whether there is a connection to send to a machine, as of the last `poll_connections`."""
        return machine in self._connections and self._connections[machine].is_connected

    @property
    def unconnected_addresses(self) -> dict[int, str]:
        """Returns the endpoints of the machines to which there is no connection, by index of the machine."""
        return {
            index: connection.address for index, connection in self._connections.items() if not connection.is_connected
        }

    def connect(self, addresses: Mapping[Peer, str]) -> None:
        """Connects to the hubs of other machines, by their endpoints. A new incarnation or a new address replaces the
        earlier connection of the same index."""
        for peer, endpoint in addresses.items():
            address = with_scope_of(self.host, endpoint)
            connection = self._connections.get(peer.index)
            if connection is not None:
                if (connection.peer, connection.address) == (peer, address):
                    continue
                self._close_connection(connection)
            self._connections[peer.index] = self._open_connection(peer, address)

    def _open_connection(self, peer: Peer, address: str) -> _Connection:
        """Opens a socket that connects to the hub of another machine."""
        socket = self.context.socket(zmq.PUSH)
        self._prepare(socket)
        socket.setsockopt(zmq.CURVE_SERVERKEY, self._public)
        socket.setsockopt(zmq.CURVE_PUBLICKEY, self._public)
        socket.setsockopt(zmq.CURVE_SECRETKEY, self.key.encode())
        socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS[0])
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_MS[1])
        socket.setsockopt(zmq.IMMEDIATE, 1)  # no queue while there is no connection: this object retains messages
        monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        if self._poller is not None:
            self._poller.register(monitor, zmq.POLLIN)
        socket.connect(address)
        return _Connection(peer, address, socket, monitor)

    def poll_connections(self) -> None:
        """Updates which connections exist. Sends all retained messages over each new connection."""
        for connection in self._connections.values():
            while connection.monitor.poll(0):
                event = recv_monitor_message(connection.monitor)["event"]
                connection.is_connected = event == zmq.EVENT_HANDSHAKE_SUCCEEDED
                if connection.is_connected:
                    log.info("connected to %s at %s", connection.peer, connection.address)
                    for messages in self._retained.values():
                        for frames in messages:
                            self._send(connection, frames)

    def broadcast(self, step: int, message: Message, frames: Frames = ()) -> None:
        """Sends a message to all other machines, and retains it to send again after a reconnection.

        `step`: the message is retained until `discard_below` is called with a higher step. The memory of the frames
        must not change until then.
        """
        self._sent += 1
        all_frames = [encode(Envelope(self.me, self.me, self._sent, message)), *frames]
        self._retained.setdefault(step, []).append(all_frames)
        for connection in self._connections.values():
            if connection.is_connected:
                self._send(connection, all_frames)

    def discard_below(self, step: int) -> None:
        """Discards the retained messages of steps below `step`, which no machine needs any more."""
        for old_step in [retained for retained in self._retained if retained < step]:
            del self._retained[old_step]

    def send(self, machine: int, message: Message, frames: Frames = ()) -> None:
        """Sends a message to one machine if there is a connection. A lost message is not sent again, since the next one
        replaces it."""
        connection = self._connections.get(machine)
        if connection is not None and connection.is_connected:
            self._sent += 1
            self._send(connection, [encode(Envelope(self.me, connection.peer, self._sent, message)), *frames])

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
        for connection in self._connections.values():
            self._close_connection(connection, linger_ms)
        self._connections.clear()
        self._socket.close(0)

    def _close_connection(self, connection: _Connection, linger_ms: int = 0) -> None:
        if self._poller is not None:  # a poller would take a closed socket for standard input
            self._poller.unregister(connection.monitor)
        connection.socket.disable_monitor()
        connection.monitor.close(0)
        connection.socket.close(linger_ms)

    def _send(self, connection: _Connection, frames: Sequence[bytes | memoryview]) -> None:
        try:
            connection.socket.send_multipart(frames, zmq.NOBLOCK, copy=False)
        except zmq.Again:
            connection.is_connected = False  # retained messages are sent when there is a connection again

    def _prepare(self, socket: zmq.Socket[bytes]) -> None:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SNDHWM, 0)
        socket.setsockopt(zmq.RCVHWM, 0)
        socket.setsockopt(zmq.IPV6, ":" in self.host)
        socket.setsockopt(zmq.HANDSHAKE_IVL, 5000)
        socket.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS[0])
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_MS[1])
        socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
