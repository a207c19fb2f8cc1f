"""How workers on the coordinator's devices get at its memory: descriptors, through a socket of the coordinator's own.

A worker connects and says nothing: the kernel says who it is, and the supervisor's roster which worker that is. Each
life of a worker gets the weights that lie on its device, and gradient slots of its own.
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
_NOTE = 1 << 10  # bytes at most
_AGAIN = 0.01  # seconds


class Lender:
    """The coordinator's end."""

    def __init__(self, key: str, me: Peer, homes: Homes, shared_memory: SharedMemory) -> None:
        """Raises OSError."""
        self._homes = homes
        self._shared_memory = shared_memory
        self._workers: dict[int, Peer] = {}  # by pid
        self._waiting: list[socket.socket] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        self._socket.bind(memory_address(key, me))
        self._socket.listen()

    def fileno(self) -> int:
        """Readable when `hear` has something."""
        return self._socket.fileno()

    def alive(self, pids: Mapping[Peer, int]) -> None:
        """Takes the newest roster: who is who."""
        self._workers = {pid: peer for peer, pid in pids.items() if peer.index in self._homes.of_worker}
        self._serve()

    def hear(self) -> None:
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
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            worker = self._workers.get(_peer_of(connection)[0])
            if worker is None:
                self._waiting.append(connection)  # the roster does not know it yet
                continue
            with connection:
                self._send(connection, worker)
            crash_point("coordinator.memory_lent")

    def _send(self, connection: socket.socket, worker: Peer) -> None:
        lent = self._homes.lend(worker.index, worker.incarnation)
        exported = [self._shared_memory.export(memory) for memory in (lent.weights, lent.slots)]
        try:
            note = json.dumps([asdict(each) for each in exported]).encode()
            socket.send_fds(connection, [note], [each.fd for each in exported])
        except (BrokenPipeError, ConnectionResetError):
            pass  # it is dead
        finally:
            for each in exported:
                os.close(each.fd)


def borrow(key: str, coordinator: Peer, device: torch.device, shared_memory: SharedMemory) -> LentMemory:
    """A worker's end: waits until the coordinator is there. When that is dead, so is this process soon: the supervisor
    sees to it. Raises what the device says."""
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
    """Pid and uid of the other end."""
    pid, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, uid
