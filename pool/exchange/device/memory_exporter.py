"""Gives workers on the coordinator's devices access to its memory there, by descriptors through a socket.

A worker connects and sends nothing. The kernel names its process id, and the supervisor's list of living processes
names the worker that has this id. Each incarnation (life) of a worker gets the weights on its device, and gradient
slots of its own.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import NamedTuple

import torch

from pool.crash_points import crash_point
from pool.device.shared_memory import MemoryHandle, SharedMemory
from pool.exchange.device.owners import DeviceStores
from pool.exchange.device.store import ExportedMemory
from pool.protocol.address import memory_address
from pool.protocol.identity import Peer

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
_MAX_MESSAGE_NBYTES = 1 << 10  # of a message, which describes the memory sent
_RETRY_SECONDS = 0.01  # until a worker tries again to connect


class MemoryExporter:
    """The coordinator's end: accepts the connections of workers and sends them descriptors of device memory."""

    def __init__(self, address_key: str, coordinator: Peer, stores: DeviceStores, shared_memory: SharedMemory) -> None:
        """Opens the coordinator's socket. `address_key`: names the run; `coordinator`: this process. Raises OSError."""
        self._stores = stores
        self._shared_memory = shared_memory
        self._workers: dict[int, Peer] = {}  # by pid
        self._waiting: list[socket.socket] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        self._socket.bind(memory_address(address_key, coordinator))
        self._socket.listen()

    def fileno(self) -> int:
        """Returns the socket's descriptor, which is readable when a worker has connected. Then call
        `accept_workers`."""
        return self._socket.fileno()

    def update_workers(self, pids: Mapping[Peer, int]) -> None:
        """Serves the connected workers that the newest list of living processes names. `pids`: their process ids."""
        self._workers = {pid: peer for peer, pid in pids.items() if peer.index in self._stores.of_worker}
        self._serve_waiting()

    def accept_workers(self) -> None:
        """Accepts new connections of this user's processes, and serves those of living workers."""
        while True:
            try:
                connection, _ = self._socket.accept()
            except BlockingIOError:
                break
            if _read_credentials(connection).uid == os.geteuid():
                self._waiting.append(connection)
            else:
                connection.close()
        self._serve_waiting()

    def _serve_waiting(self) -> None:
        """Sends memory to each connected worker that the list of living processes names. The others wait for the next
        list."""
        connections, self._waiting = self._waiting, []
        for connection in connections:
            worker = self._workers.get(_read_credentials(connection).pid)
            if worker is None:
                self._waiting.append(connection)
                continue
            with connection:
                self._send_memory(connection, worker)
            crash_point("coordinator.memory_lent")

    def _send_memory(self, connection: socket.socket, worker: Peer) -> None:
        """Sends a worker the descriptors of its device's weights and of its gradient slots."""
        memory = self._stores.export_memory(worker.index, worker.incarnation)
        handles = [self._shared_memory.export(part) for part in (memory.weights, memory.slots)]
        message = json.dumps([asdict(handle) for handle in handles]).encode()
        try:
            socket.send_fds(connection, [message], [handle.fd for handle in handles])
        except (BrokenPipeError, ConnectionResetError):
            pass  # the worker is dead
        finally:
            for handle in handles:
                os.close(handle.fd)


def import_memory(
    address_key: str, coordinator: Peer, device: torch.device, shared_memory: SharedMemory
) -> ExportedMemory:
    """Maps the coordinator's memory on `device` in this worker's process. Waits until the coordinator serves it.

    If the coordinator dies, the supervisor soon ends this process, too. Raises the error that the device refuses with.
    """
    while True:
        handles = _receive_handles(memory_address(address_key, coordinator))
        if handles:
            weights, slots = (shared_memory.open(device, handle) for handle in handles)
            return ExportedMemory(weights, slots)
        time.sleep(_RETRY_SECONDS)


def _receive_handles(address: str) -> Sequence[MemoryHandle]:
    """Connects to the coordinator and returns the handles that it sends. Returns none if it does not live, or is not
    this user's."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        try:
            connection.connect(address)
            message, fds, _, _ = socket.recv_fds(connection, _MAX_MESSAGE_NBYTES, 2)
            if not fds or _read_credentials(connection).uid != os.geteuid():
                return ()
        except (ConnectionRefusedError, ConnectionResetError, FileNotFoundError):
            return ()
    descriptions = json.loads(message)
    return [MemoryHandle(**{**values, "fd": fd}) for values, fd in zip(descriptions, fds, strict=True)]


class _Credentials(NamedTuple):
    """The process at the other end of a connection, as the kernel names it."""

    pid: int
    uid: int
    gid: int


def _read_credentials(connection: socket.socket) -> _Credentials:
    """Returns the process at the other end of a connection."""
    option = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _Credentials(*_CREDENTIALS.unpack(option))
