"""The short way for the two things that somebody always waits for: a batch is finished, a version is complete.

Each is a word in shared memory, and a bell: no thread, no socket and no message in between. The protocol's messages say
the same, a little later and again and again, so that nothing depends on a bell being heard (I5). A word names the
attempt, or the coordinator's life, that it belongs to; to anybody else it says nothing.

Words are of 8 bytes, written and read whole; the order of writes is that of x86: what a word announces lies in memory
before it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from pool.protocol.identity import COORDINATOR, WORKER, Peer
from pool.shm.bells import Bell, name_of

Words = npt.NDArray[np.int64]

FINISHED_WORDS = 3  # attempt, bits of the loss, and both in one, so that half of a new entry is taken for none
_VERSION_BITS = 40
_DOUBLE, _INTEGER = struct.Struct("<d"), struct.Struct("<q")


class WorkerEnd:
    def __init__(self, peer: Peer, finished: Words, version: Words, bells: Mapping[str, int]) -> None:
        self._finished = finished
        self._version = version
        self._mine = Bell(bells[name_of(peer)])
        self._coordinators = Bell(bells[name_of(Peer(COORDINATOR))])

    def finish(self, attempt: int, loss: float) -> None:
        """All of the batch lies in its gradient slot, and is sound."""
        bits = _bits(loss)
        self._finished[:] = (attempt, bits, attempt ^ bits)
        self._coordinators.ring()

    def newest(self, incarnation: int) -> int:
        """The newest complete version of that life of the coordinator, -1: none yet, or that life is not the newest."""
        life, version = divmod(int(self._version[0]), 1 << _VERSION_BITS)
        return version if life == incarnation else -1

    def wait(self) -> None:
        """Until somebody has news: the coordinator, or a thread of this process that calls `wake`."""
        self._mine.wait()

    def wake(self) -> None:
        self._mine.ring()


class CoordinatorEnd:
    def __init__(self, incarnation: int, finished: list[Words], version: Words, bells: Mapping[str, int]) -> None:
        """`finished`: by worker."""
        self._incarnation = incarnation
        self._finished = finished
        self._version = version
        self.bell = Bell(bells[name_of(Peer(COORDINATOR))])
        self._workers = [Bell(bells[name_of(Peer(WORKER, index))]) for index in range(len(finished))]

    def publish(self, version: int) -> None:
        """It is complete: who has a batch for it may begin."""
        self._version[0] = (self._incarnation << _VERSION_BITS) + version
        for bell in self._workers:
            bell.ring()

    def finished(self, worker: int) -> tuple[int, float]:
        """Attempt and loss of what the worker has finished last; attempt 0: nothing yet."""
        attempt, bits, both = (int(word) for word in self._finished[worker])
        return (attempt, _loss(bits)) if attempt ^ bits == both else (0, 0.0)


def _bits(value: float) -> int:
    return int(_INTEGER.unpack(_DOUBLE.pack(value))[0])


def _loss(bits: int) -> float:
    return float(_DOUBLE.unpack(_INTEGER.pack(bits))[0])
