"""Bells: an eventfd for the coordinator and one for each worker, rung to wake it up. Made by the supervisor.

Spurious and stale wake-ups are harmless: waiters check shared memory again.
"""

from __future__ import annotations

import contextlib
import os
import select

from pool.protocol.identity import COORDINATOR, WORKER, Peer


def make(workers: int) -> dict[str, int]:
    """The descriptors by name. Raises OSError."""
    bells: dict[str, int] = {}
    try:
        for peer in (Peer(COORDINATOR), *(Peer(WORKER, index) for index in range(workers))):
            bells[name_of(peer)] = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    except OSError:
        for fd in bells.values():
            os.close(fd)
        raise
    return bells


def name_of(peer: Peer) -> str:
    return f"{peer.role}.{peer.index}"


def within_reach(peer: Peer, names: list[str]) -> list[str]:
    """The names of the bells that a process gets: the coordinator all, a worker its own and the coordinator's."""
    if peer.role == COORDINATOR:
        return names
    return [name_of(Peer(COORDINATOR)), name_of(peer)] if peer.role == WORKER else []


class Bell:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        """Readable when it has been rung."""
        return self._fd

    def ring(self) -> None:
        with contextlib.suppress(BlockingIOError):  # rung 2**64 times and never read
            os.eventfd_write(self._fd, 1)

    def silence(self) -> None:
        """Resets it. Read shared memory after this, not before."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._fd)

    def wait(self) -> None:
        """Until it has been rung since the last time."""
        poller = select.poll()
        poller.register(self._fd, select.POLLIN)
        poller.poll()
        self.silence()
