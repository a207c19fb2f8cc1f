"""The memory of a run: which segments there are, how long, who writes them, and views of their slots.

    ring           train slots, then validation slots       feeder writes; workers and coordinator read
    gradients.I    pool.gradient_slots of Plan.nbytes,      worker I writes; coordinator reads
                   then a page of int64: attempt and batch in work,
                   what it finished last (`shortcut`), what ended it (`raised`)
    weights        two versions of Plan.nbytes,             coordinator writes; workers read
                   then a page: the newest (`shortcut`)
    snapshot.0, 1  copies of weights and optimizer state    coordinator writes; its successor reads
    sums           a word for each chunk of the data:       feeder writes, and compares what its predecessors wrote;
                   train, then validation                   coordinator reads

Batch k of a ring lies in its slot k mod count. Version t of the weights lies in half t mod 2.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from pool.launch import Launch
from pool.protocol.identity import COORDINATOR, FEEDER, WORKER, Peer
from pool.protocol.messages import Purpose
from pool.shm.bells import Bell, name_of
from pool.shm.raised import Raised
from pool.shm.segment import PAGE, Segment
from pool.shm.shortcut import FINISHED_WORDS, CoordinatorEnd, Words, WorkerEnd

RING = "ring"
WEIGHTS = "weights"
SNAPSHOTS = ("snapshot.0", "snapshot.1")
SUMS = "sums"
VALIDATION_SLOTS = 2

_IN_WORK_WORDS = 2

Slot = npt.NDArray[np.uint8]


def gradients(worker: int) -> str:
    return f"gradients.{worker}"


def segment_sizes(launch: Launch) -> dict[str, int]:
    """Bytes of each segment."""
    config = launch.config
    schema, plan = launch.planned()
    sizes = {
        RING: (config.num_ring_slots + VALIDATION_SLOTS) * schema.slot_bytes,
        WEIGHTS: 2 * plan.nbytes + PAGE,
        **dict.fromkeys(SNAPSHOTS, launch.state_nbytes),
        SUMS: max(1, -(-8 * sum(launch.num_chunks.values()) // PAGE)) * PAGE,
    }
    for worker in range(len(launch.devices)):
        sizes[gradients(worker)] = config.pool.gradient_slots * plan.nbytes + PAGE
    return sizes


def access(peer: Peer, sizes: Mapping[str, int]) -> dict[str, bool]:
    """The segments a process is given, and whether it may write them (I4)."""
    if peer.role == FEEDER:
        return {RING: True, SUMS: True}
    if peer.role == WORKER:
        return {RING: False, WEIGHTS: False, gradients(peer.index): True}
    if peer.role == COORDINATOR:
        return {name: name in (WEIGHTS, *SNAPSHOTS) for name in sizes}
    return {}


class Memory:
    """The segments of one process, mapped."""

    def __init__(self, launch: Launch) -> None:
        self._schema, self._plan = launch.planned()
        self._config = launch.config
        self._num_chunks = launch.num_chunks
        self._segments = {
            name: Segment(handle.fd, writable=handle.writable) for name, handle in launch.segments.items()
        }
        threading.Thread(target=self._touch, name="touch", daemon=True).start()
        ring = self.ring = self._segments[RING]
        train = self._config.num_ring_slots
        slot_bytes = self._schema.slot_bytes
        self.rings: dict[Purpose, list[Slot]] = {
            "train": ring.slots(0, train, slot_bytes),
            "validate": ring.slots(train * slot_bytes, VALIDATION_SLOTS, slot_bytes),
        }

    def _touch(self) -> None:
        for segment in self._segments.values():
            segment.touch()

    def batch_slot(self, purpose: Purpose, batch: int) -> Slot:
        ring = self.rings[purpose]
        return ring[batch % len(ring)]

    def weight_halves(self) -> list[Slot]:
        return self._segments[WEIGHTS].slots(0, 2, self._plan.nbytes)

    def gradient_slots(self, worker: int) -> list[Slot]:
        return self._segments[gradients(worker)].slots(0, self._config.pool.gradient_slots, self._plan.nbytes)

    def sums(self) -> dict[Purpose, npt.NDArray[np.uint64]]:
        """[chunks] words of each stream whose chunks are compared (`loader.stream.Compared`)."""
        words, begin = self._segments[SUMS].array.view(np.uint64), 0
        found: dict[Purpose, npt.NDArray[np.uint64]] = {}
        for purpose, count in self._num_chunks.items():
            found[purpose] = words[begin : begin + count]
            begin += count
        return found

    def snapshots(self) -> list[Slot]:
        return [self._segments[name].array for name in SNAPSHOTS]

    def in_work(self, worker: int) -> npt.NDArray[np.int64]:
        """Two numbers: Assignment.attempt of the batch that the worker is computing, 0 between batches; its number.

        They outlive the worker, and say what it died of.
        """
        return self._last_page(gradients(worker))[:_IN_WORK_WORDS]

    def raised(self, worker: int) -> Raised:
        """What the worker says of the exception that ends it."""
        return Raised(self._last_page(gradients(worker))[_IN_WORK_WORDS + FINISHED_WORDS :])

    def worker_end(self, launch: Launch) -> WorkerEnd:
        """Of the short way."""
        return WorkerEnd(
            self._finished(launch.peer.index),
            self._last_page(WEIGHTS)[:1],
            mine=Bell(launch.bells[name_of(launch.peer)]),
            coordinators=Bell(launch.bells[name_of(Peer(COORDINATOR))]),
        )

    def coordinator_end(self, launch: Launch) -> CoordinatorEnd:
        workers = range(len(launch.devices))
        return CoordinatorEnd(
            launch.peer.incarnation,
            [self._finished(worker) for worker in workers],
            self._last_page(WEIGHTS)[:1],
            mine=Bell(launch.bells[name_of(launch.peer)]),
            workers=[Bell(launch.bells[name_of(Peer(WORKER, worker))]) for worker in workers],
        )

    def _finished(self, worker: int) -> Words:
        return self._last_page(gradients(worker))[_IN_WORK_WORDS:][:FINISHED_WORDS]

    def _last_page(self, segment: str) -> Words:
        array = self._segments[segment].array
        return array[array.size - PAGE :].view(np.int64)


def write_sums(segment: int, num_chunks: Mapping[Purpose, int], sums: Mapping[Purpose, npt.NDArray[np.uint64]]) -> None:
    """Puts what is known of chunks into a new segment, given as its descriptor. Raises OSError."""
    begin = 0
    for purpose, count in num_chunks.items():
        if purpose in sums:
            os.pwrite(segment, sums[purpose].tobytes(), 8 * begin)
        begin += count


def held_batch(segments: Mapping[str, int], sizes: Mapping[str, int], peer: Peer) -> int | None:
    """The batch that a dead worker was computing, if any. `segments`: descriptors."""
    if peer.role != WORKER:
        return None
    name = gradients(peer.index)
    attempt, batch = np.frombuffer(os.pread(segments[name], 8 * _IN_WORK_WORDS, sizes[name] - PAGE), np.int64)
    return int(batch) if attempt else None
