"""Gives workers on the coordinator's devices access to its memory there, by descriptors through a socket.

A worker connects and sends nothing. The kernel tells its process id, and the supervisor's list of living processes
tells which worker that is. Each incarnation (life) of a worker gets the weights on its device, and gradient slots of
its own.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import asdict

import torch

from pool.crash_points import crash_point
from pool.device.shared_memory import Exported, SharedMemory
from pool.exchange.device.homes import Homes
from pool.exchange.device.store import LentMemory
from pool.protocol.address import memory_address
from pool.protocol.identity import Peer

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
_NOTE = 1 << 10  # greatest number of bytes in a message, which describes the memory sent
_AGAIN = 0.01  # seconds until a worker tries again to connect


class Lender:
    """The coordinator's end: accepts the connections of workers and sends them descriptors of device memory."""

    def __init__(self, key: str, me: Peer, homes: Homes, shared_memory: SharedMemory) -> None:
        """Opens the coordinator's socket. `key`: names the run; `me`: this coordinator. Raises OSError."""
        self._homes = homes
        self._shared_memory = shared_memory
        self._workers: dict[int, Peer] = {}  # by pid
        self._waiting: list[socket.socket] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        self._socket.bind(memory_address(key, me))
        self._socket.listen()

    def fileno(self) -> int:
        """Returns the socket's descriptor, which is readable when a worker has connected and `hear` has something to
        do."""
        return self._socket.fileno()

    def alive(self, pids: Mapping[Peer, int]) -> None:
        """Takes the newest list of living processes with their process ids, and serves workers that it makes known."""
        self._workers = {pid: peer for peer, pid in pids.items() if peer.index in self._homes.of_worker}
        self._serve()

    def hear(self) -> None:
        """Accepts new connections, those of this user alone, and serves the workers that are known."""
        while True:
            try:
                connection, _ = self._socket.accept()
            except BlockingIOError:
                break
            if _peer_of(connection)[1] == os.geteuid():
                self._waiting.append(connection)
            else:
                connection.close()
        self._serve()

    def _serve(self) -> None:
        """Sends memory to each connected worker that the list of living processes names. Others stay waiting for the
        next list."""
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            worker = self._workers.get(_peer_of(connection)[0])
            if worker is None:
                self._waiting.append(connection)  # a later list of living processes will name it
                continue
            with connection:
                self._send(connection, worker)
            crash_point("coordinator.memory_lent")

    def _send(self, connection: socket.socket, worker: Peer) -> None:
        """Sends a worker the descriptors of its device's weights and of its gradient slots."""
        lent = self._homes.lend(worker.index, worker.incarnation)
        exported = [self._shared_memory.export(memory) for memory in (lent.weights, lent.slots)]
        try:
            note = json.dumps([asdict(each) for each in exported]).encode()
            socket.send_fds(connection, [note], [each.fd for each in exported])
        except (BrokenPipeError, ConnectionResetError):
            pass  # the worker is dead
        finally:
            for each in exported:
                os.close(each.fd)


def borrow(key: str, coordinator: Peer, device: torch.device, shared_memory: SharedMemory) -> LentMemory:
    """Returns the coordinator's memory on `device`, mapped in this worker's process. Waits until the coordinator is
    there.

    If the coordinator dies, the supervisor soon ends this process, too. Raises the error that the device refuses with.
    """
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with connection:
            try:
                connection.connect(memory_address(key, coordinator))
                note, fds, _, _ = socket.recv_fds(connection, _NOTE, 2)
                if fds and _peer_of(connection)[1] == os.geteuid():
                    exported = [Exported(**{**each, "fd": fd}) for each, fd in zip(json.loads(note), fds, strict=True)]
                    weights, slots = (shared_memory.open(device, each) for each in exported)
                    return LentMemory(weights, slots)
            except (ConnectionRefusedError, ConnectionResetError, FileNotFoundError):
                pass
        time.sleep(_AGAIN)


def _peer_of(connection: socket.socket) -> tuple[int, int]:
    """Returns the process id and user id of the process at the other end of a connection."""
    pid, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, uid
