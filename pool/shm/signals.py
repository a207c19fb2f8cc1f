"""Signals through shared memory: a worker has finished batches, weights are complete, an exception ends a worker.

The news is written as words in shared memory. An eventfd (`Signal`) then wakes the process that waits for it, which is
faster than a message through sockets and threads. The coordinator and each worker have one. Messages report the same a
little later and are resent, so a lost signal changes nothing (I5). The words name an attempt, or an incarnation (one
life) of the coordinator, and readers ignore those that they do not wait for. Waiters check shared memory again, so
spurious and stale wake-ups are harmless.

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

_NUM_TIMES = 3
_VERSION_BITS = 40


@dataclass(frozen=True)
class FinishedBatches:
    """The batches that a worker has finished last, with their losses."""

    attempt: int  # Assignment.attempt; 0: nothing is finished yet
    losses: tuple[float, ...]  # of each batch one for each member, and its metrics if any; then zeros
    times: Times


class PublishedVersion(NamedTuple):
    """The newest complete version of the weights, and the incarnation of the coordinator that made it."""

    incarnation: int
    version: int


def num_report_words(num_losses: int) -> int:
    """Returns the number of words in which a worker reports finished batches.

    They are the attempt, a checksum of attempt and losses, the losses of a group of batches, and the times. The
    checksum tells a reader that a report is only half written.
    """
    return 2 + num_losses + _NUM_TIMES


class WorkerSignals:
    """A worker's end of the signals: reports finished batches, and waits for new versions of the weights."""

    def __init__(self, report: Words, version: Words, *, own: Signal, coordinator: Signal) -> None:
        """Makes the worker's end. `report`: the words in which this worker reports; `version`: the word of the newest
        version; `own`: wakes this worker; `coordinator`: wakes the coordinator."""
        self._report = report[:-_NUM_TIMES]
        self._times = report[-_NUM_TIMES:].view(np.float64)
        self._version = version
        self._own = own
        self._coordinator = coordinator

    def report_finished(self, attempt: int, losses: Sequence[float], times: Times) -> None:
        """Reports that the batches of an attempt are finished: all their gradients lie in the gradient slot and are
        finite.

        `losses`: at most as many as the report has words for.
        """
        num_unused = len(self._report) - 2 - len(losses)
        losses = [*losses, *[0.0] * num_unused]
        self._times[:] = (times.computing, times.waiting_for_batches, times.waiting_for_weights)
        self._report[0], self._report[1] = attempt, _checksum(attempt, losses)
        self._report[2:].view(np.float64)[:] = losses
        self._coordinator.set()

    def newest_version(self, incarnation: int) -> int:
        """Returns the newest complete version that this incarnation of the coordinator has made. -1 if there is none
        yet, or if another incarnation has published since."""
        newest = decode_version(int(self._version[0]))
        return newest.version if newest.incarnation == incarnation else -1

    def wait(self) -> None:
        """Blocks until the coordinator wakes this worker, or a thread of this process does by `wake`."""
        self._own.wait()

    def wake(self) -> None:
        self._own.set()


class CoordinatorSignals:
    """The coordinator's end of the signals: publishes versions of the weights, and reads what workers have finished."""

    def __init__(
        self, incarnation: int, reports: Sequence[Words], version: Words, *, own: Signal, workers: Sequence[Signal]
    ) -> None:
        """Makes the end of one incarnation of the coordinator. `reports`, `workers`: the words in which each worker
        reports, and the signal that wakes it, by index; `version`: the word of the newest version; `own`: wakes the
        coordinator."""
        self.own_signal = own
        self._incarnation = incarnation
        self._reports = reports
        self._version = version
        self._workers = workers

    def publish(self, version: int) -> None:
        """Announces that a version of the weights is complete, so that workers may start its batches."""
        self._version[0] = (self._incarnation << _VERSION_BITS) + version
        for worker in self._workers:
            worker.set()

    def read_finished(self, worker: int) -> FinishedBatches:
        """Returns the batches that a worker has finished last. `attempt` is 0 if there are none, or their report is
        only half written."""
        report = self._reports[worker]
        attempt, checksum = report[:2].tolist()
        *losses, computing, waiting_for_batches, waiting_for_weights = report[2:].view(np.float64).tolist()
        times = Times(computing, waiting_for_batches, waiting_for_weights)
        if checksum != _checksum(attempt, losses):
            return FinishedBatches(0, (), times)
        return FinishedBatches(attempt, tuple(losses), times)


def decode_version(word: int) -> PublishedVersion:
    """Decodes the word of the newest version. The incarnation is 0 if nothing was ever published."""
    return PublishedVersion(*divmod(word, 1 << _VERSION_BITS))


def _checksum(attempt: int, losses: Sequence[float]) -> int:
    """Returns a checksum of attempt and losses. It depends on their order, since members of an ensemble may have equal
    losses."""
    entry = struct.pack(f"<q{len(losses)}d", attempt, *losses)
    return int.from_bytes(hashlib.blake2b(entry, digest_size=8).digest(), "little", signed=True)


def create_signals(num_workers: int) -> dict[str, int]:
    """Creates an eventfd for the coordinator and for each worker. Returns the descriptors by name, which the caller
    owns. Raises OSError."""
    fds: dict[str, int] = {}
    try:
        for peer in (Peer(COORDINATOR), *(Peer(WORKER, index) for index in range(num_workers))):
            fds[signal_name(peer)] = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    except OSError:
        for fd in fds.values():
            os.close(fd)
        raise
    return fds


def signal_name(peer: Peer) -> str:
    return f"{peer.role}.{peer.index}"


def accessible_signals(peer: Peer, names: list[str]) -> list[str]:
    """Returns the names of the signals that a process may use: the coordinator all of `names`, a worker its own and
    the coordinator's, other processes none."""
    if peer.role == COORDINATOR:
        return names
    return [signal_name(Peer(COORDINATOR)), signal_name(peer)] if peer.role == WORKER else []


class Signal:
    """An eventfd by which one process wakes another."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        """Returns the descriptor, which is readable while the signal is set."""
        return self._fd

    def set(self) -> None:
        with contextlib.suppress(BlockingIOError):  # set 2**64 times and never read
            os.eventfd_write(self._fd, 1)

    def clear(self) -> None:
        """Clears the signal. Read shared memory after this, not before, or news may be missed."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._fd)

    def wait(self) -> None:
        """Blocks until the signal is set, then clears it."""
        poller = select.poll()
        poller.register(self._fd, select.POLLIN)
        poller.poll()
        self.clear()


class ExceptionText:
    """The text of the exception that ends a worker, in the worker's own shared memory.

    The coordinator reads the text when it knows of the death, since a last message could be lost. The number of the
    attempt tells whether the text is that of an earlier incarnation of the worker.

        word 0      attempt, written last
        word 1      bytes of the text
        then        the text, UTF-8
    """

    def __init__(self, words: Words) -> None:
        self._header = words[:2]
        self._text = words[2:].view(np.uint8)

    def write(self, attempt: int, text: str) -> None:
        """Writes the text before the worker ends. What does not fit is cut off."""
        data = text.encode(errors="replace")[: self._text.size]
        self._header[0] = 0
        self._text[: len(data)] = np.frombuffer(data, np.uint8)
        self._header[1] = len(data)
        self._header[0] = attempt

    def read(self, attempt: int) -> str:
        """Returns the text that was written for this attempt, empty if there is none."""
        written_attempt, nbytes = self._header.tolist()
        if not attempt or written_attempt != attempt:
            return ""
        nbytes = max(0, min(nbytes, self._text.size))
        return self._text[:nbytes].tobytes().decode(errors="replace")
