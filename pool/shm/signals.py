"""Signals through shared memory: a worker has finished batches, weights are complete, an exception ends a worker.

Each signal is a word in shared memory and a bell, which wakes the waiting process. The coordinator and each worker have
a bell, an eventfd, which is faster than a message through sockets and threads. Messages report the same a little later
and are resent, so a lost signal changes nothing (I5). A word names its attempt, or the coordinator's incarnation (one
life of the process), and readers ignore words that they do not wait for. Spurious and stale wake-ups are harmless,
since waiters check shared memory again.

Words have 8 bytes and are written and read whole. x86 keeps the order of stores, so what a word announces is in memory
before the word.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pool.protocol.identity import COORDINATOR, WORKER, Peer
from pool.protocol.messages import Times

Words = npt.NDArray[np.int64]

_TIMES = 3
_VERSION_BITS = 40


@dataclass(frozen=True)
class Finished:
    """The batches that a worker has finished last, with their losses."""

    attempt: int  # Assignment.attempt; 0: nothing is finished yet
    losses: tuple[float, ...]  # of each batch one for each member, and its metrics if any; then zeros
    times: Times


class Published(NamedTuple):
    """The newest complete version of the weights, and the incarnation of the coordinator that made it."""

    incarnation: int
    version: int


def finished_words(losses: int) -> int:
    """Returns the number of words in which a worker reports finished batches.

    They are the attempt, a checksum of attempt and losses, as many losses as a group of batches has, and the times. By
    the checksum a reader ignores a report that is only half written.
    """
    return 2 + losses + _TIMES


class WorkerEnd:
    """A worker's end of the signals: reports finished batches, and waits for new versions of the weights."""

    def __init__(self, finished: Words, version: Words, *, mine: Bell, coordinators: Bell) -> None:
        self._finished = finished[:-_TIMES]
        self._times = finished[-_TIMES:].view(np.float64)
        self._version = version
        self._mine = mine
        self._coordinators = coordinators

    def finish(self, attempt: int, losses: Sequence[float], times: Times) -> None:
        """Reports that the batches of an attempt are finished: all their gradients lie in the gradient slot and are
        finite.

        `losses`: no more than there is room for.
        """
        losses = [*losses, *[0.0] * (len(self._finished) - 2 - len(losses))]
        self._times[:] = (times.computing, times.waiting_for_batches, times.waiting_for_weights)
        self._finished[0], self._finished[1] = attempt, _sum(attempt, losses)
        self._finished[2:].view(np.float64)[:] = losses
        self._coordinators.ring()

    def newest(self, incarnation: int) -> int:
        """Returns the newest complete version that this incarnation of the coordinator has made. -1 if there is none
        yet, or if another incarnation has published since."""
        newest = published(int(self._version[0]))
        return newest.version if newest.incarnation == incarnation else -1

    def wait(self) -> None:
        """Blocks until the coordinator rings this worker's bell, or a thread of this process does by `wake`."""
        self._mine.wait()

    def wake(self) -> None:
        self._mine.ring()


class CoordinatorEnd:
    """The coordinator's end of the signals: publishes versions of the weights, and reads what workers have finished."""

    def __init__(
        self, incarnation: int, finished: Sequence[Words], version: Words, *, mine: Bell, workers: Sequence[Bell]
    ) -> None:
        """Takes the shared words. `finished`, `workers`: the words and the bell of each worker, by index."""
        self.bell = mine
        self._incarnation = incarnation
        self._finished = finished
        self._version = version
        self._workers = workers

    def publish(self, version: int) -> None:
        """Announces that a version of the weights is complete, so that workers may begin its batches."""
        self._version[0] = (self._incarnation << _VERSION_BITS) + version
        for bell in self._workers:
            bell.ring()

    def finished(self, worker: int) -> Finished:
        """Returns the batches that a worker has finished last. `attempt` is 0 if there are none, or their report is
        only half written."""
        words = self._finished[worker]
        attempt, checksum = words[:2].tolist()
        *losses, computing, waiting_for_batches, waiting_for_weights = words[2:].view(np.float64).tolist()
        times = Times(computing, waiting_for_batches, waiting_for_weights)
        whole = checksum == _sum(attempt, losses)
        return Finished(attempt, tuple(losses), times) if whole else Finished(0, (), times)


def published(word: int) -> Published:
    """Decodes the word of the newest version. The incarnation is 0 if nothing was ever published."""
    return Published(*divmod(word, 1 << _VERSION_BITS))


def _sum(attempt: int, losses: Sequence[float]) -> int:
    """Returns a checksum of attempt and losses. It depends on their order, since members of an ensemble may have equal
    losses."""
    entry = struct.pack(f"<q{len(losses)}d", attempt, *losses)
    return int.from_bytes(hashlib.blake2b(entry, digest_size=8).digest(), "little", signed=True)


def make_bells(workers: int) -> dict[str, int]:
    """Makes an eventfd (bell) for the coordinator and for each worker. Returns the descriptors by name, which the
    caller owns. Raises OSError."""
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
    """Returns the names of the bells (eventfds) that a process is given: the coordinator all, a worker its own and the
    coordinator's."""
    if peer.role == COORDINATOR:
        return names
    return [name_of(Peer(COORDINATOR)), name_of(peer)] if peer.role == WORKER else []


class Bell:
    """An eventfd by which one process wakes another."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        """Returns the descriptor, which is readable when the bell has been rung."""
        return self._fd

    def ring(self) -> None:
        with contextlib.suppress(BlockingIOError):  # rung 2**64 times and never read
            os.eventfd_write(self._fd, 1)

    def silence(self) -> None:
        """Resets the bell. Read shared memory after this, not before, or a signal may be missed."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._fd)

    def wait(self) -> None:
        """Blocks until the bell has been rung since the last reset, then resets it."""
        poller = select.poll()
        poller.register(self._fd, select.POLLIN)
        poller.poll()
        self.silence()


class Raised:
    """The text of the exception that ends a worker, in the worker's own shared memory.

    The coordinator reads the text when it knows of the death, since a last message could be lost. The number of the
    attempt tells whether it is the text of an earlier incarnation of the worker.

        word 0      attempt, written last
        word 1      bytes of the text
        then        the text, UTF-8
    """

    def __init__(self, words: Words) -> None:
        self._head = words[:2]
        self._text = words[2:].view(np.uint8)

    def say(self, attempt: int, text: str) -> None:
        """Writes the text before the worker ends. What does not fit is cut off."""
        data = text.encode(errors="replace")[: self._text.size]
        self._head[0] = 0
        self._text[: len(data)] = np.frombuffer(data, np.uint8)
        self._head[1] = len(data)
        self._head[0] = attempt

    def of(self, attempt: int) -> str:
        """Returns the text that was written for this attempt, empty if there is none."""
        said, size = (int(word) for word in self._head)
        if not attempt or said != attempt:
            return ""
        return self._text[: max(0, min(size, self._text.size))].tobytes().decode(errors="replace")
