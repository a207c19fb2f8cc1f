"""Views of a run's memory, as one process has it mapped. What lies where: `pool.shm.memory_map`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import get_args

import numpy as np
import numpy.typing as npt

from pool.protocol.identity import COORDINATOR, WORKER, Peer
from pool.protocol.messages import Assignment, Purpose
from pool.shm.memory_map import RING, SNAPSHOTS, SUMS, VALIDATION_SLOTS, WEIGHTS, MemoryMap, gradients
from pool.shm.segment import PAGE, Segment, SegmentHandle
from pool.shm.signals import Bell, CoordinatorEnd, Raised, Words, WorkerEnd, finished_words, name_of, published

_IN_WORK_WORDS = 4
_PURPOSES: tuple[Purpose, ...] = get_args(Purpose)

Slot = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Held:
    """A batch that a worker computes, or died of."""

    attempt: int  # Assignment.attempt; 0: it computes none
    purpose: Purpose
    step: int
    batch: int


class InWork:
    """Numbers that outlive a worker, and say what it died of: attempt, batch, step, purpose."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def begin(self, assignment: Assignment) -> None:
        self._words[1:] = assignment.batch, assignment.step, _PURPOSES.index(assignment.purpose)
        self._words[0] = assignment.attempt

    def next(self, batch: int) -> None:
        """Notes another of the assignment's batches."""
        self._words[1] = batch

    def end(self) -> None:
        self._words[0] = 0

    @property
    def held(self) -> Held:
        attempt, batch, step, purpose = self._words.tolist()
        return Held(attempt, _PURPOSES[purpose], step, batch)


class Memory:
    """The segments of one process, mapped."""

    def __init__(self, memory_map: MemoryMap, segments: Mapping[str, SegmentHandle]) -> None:
        """`segments`: by name, those that the process is given. Raises OSError."""
        self._map = memory_map
        self._finished_words = finished_words(memory_map.losses)
        self._segments = {
            name: Segment(handle.fd, writable=handle.writable, registered=handle.registered)
            for name, handle in segments.items()
        }
        threading.Thread(target=self._touch, name="touch", daemon=True).start()
        ring = self._segments[RING]
        train, slot_bytes = self._map.train_slots, self._map.slot_nbytes
        self.rings: dict[Purpose, list[Slot]] = {
            "train": ring.slots(0, train, slot_bytes),
            "validate": ring.slots(train * slot_bytes, VALIDATION_SLOTS, slot_bytes),
        }

    def _touch(self) -> None:
        scattered = {WEIGHTS, *map(gradients, range(self._map.workers))}  # used row by row; their writer sees to it
        for name, segment in self._segments.items():
            segment.touch(huge_pages=segment.writable and name in scattered)

    def register(self, with_device: Callable[[Segment], object]) -> None:
        """Has every segment registered with a device's driver; then what this process only reads is read-only (I4)."""
        for segment in self._segments.values():
            with_device(segment)
            segment.protect()

    def batch_slot(self, purpose: Purpose, batch: int) -> Slot:
        ring = self.rings[purpose]
        return ring[batch % len(ring)]

    def weight_halves(self) -> list[Slot]:
        """Returns both versions of the weights; none if they lie in a device's memory alone."""
        return self._segments[WEIGHTS].slots(0, self._map.halves, self._map.weights_nbytes)

    def average(self) -> Slot | None:
        """The place of the averaged weights; None if the run has none, or not here."""
        nbytes = self._map.weights_nbytes
        begin = self._map.halves * nbytes
        return self._segments[WEIGHTS].slots(begin, 1, nbytes)[0] if self._map.averages and begin else None

    def gradient_slots(self, worker: int) -> list[Slot]:
        """Each: the gradients, unless they lie in a device's memory; then the lists of touched rows, if groups have
        them."""
        nbytes = self._map.gradients_nbytes(worker)
        return self._segments[gradients(worker)].slots(0, self._map.gradient_slots, nbytes)

    def touched_lists(self, worker: int) -> list[Slot]:
        """The lists of each slot."""
        return [slot[slot.size - self._map.lists_nbytes :] for slot in self.gradient_slots(worker)]

    def collected(self, worker: int, batch: int) -> Slot:
        """Returns the place of what the worker collects of a validation batch."""
        segment = self._segments[gradients(worker)]
        places = segment.slots(self._map.slots_nbytes(worker), VALIDATION_SLOTS, self._map.collected_nbytes)
        return places[batch % VALIDATION_SLOTS]

    def sums(self) -> dict[Purpose, npt.NDArray[np.uint64]]:
        """[chunks] words of each stream whose chunks are compared (`loader.stream.Compared`)."""
        words, begin = self._segments[SUMS].array.view(np.uint64), 0
        found: dict[Purpose, npt.NDArray[np.uint64]] = {}
        for purpose, count in self._map.num_chunks.items():
            found[purpose] = words[begin : begin + count]
            begin += count
        return found

    def snapshots(self) -> list[Slot]:
        return [self._segments[name].array for name in SNAPSHOTS]

    def in_work(self, worker: int) -> InWork:
        return InWork(self._signals(worker)[-_IN_WORK_WORDS:])

    def raised(self, worker: int) -> Raised:
        """Returns the slot for the exception that ends the worker."""
        return Raised(self._signals(worker)[self._finished_words : -_IN_WORK_WORDS])

    def worker_end(self, peer: Peer, bells: Mapping[str, int]) -> WorkerEnd:
        """Returns an end for signals through shared memory (`pool.shm.signals`)."""
        return WorkerEnd(
            self._finished(peer.index),
            self._newest,
            mine=Bell(bells[name_of(peer)]),
            coordinators=Bell(bells[name_of(Peer(COORDINATOR))]),
        )

    def coordinator_end(self, peer: Peer, bells: Mapping[str, int]) -> CoordinatorEnd:
        workers = range(self._map.workers)
        return CoordinatorEnd(
            peer.incarnation,
            [self._finished(worker) for worker in workers],
            self._newest,
            mine=Bell(bells[name_of(peer)]),
            workers=[Bell(bells[name_of(Peer(WORKER, worker))]) for worker in workers],
        )

    def _finished(self, worker: int) -> Words:
        return self._signals(worker)[: self._finished_words]

    def _signals(self, worker: int) -> Words:
        array = self._segments[gradients(worker)].array
        return array[array.size - self._map.signals_nbytes :].view(np.int64)

    @property
    def _newest(self) -> Words:
        """The word of the newest version of the weights."""
        array = self._segments[WEIGHTS].array
        return array[array.size - PAGE :].view(np.int64)[:1]


def write_sums(segment: int, num_chunks: Mapping[Purpose, int], sums: Mapping[Purpose, npt.NDArray[np.uint64]]) -> None:
    """Puts what is known of chunks into a new segment, given as its descriptor. Raises OSError."""
    begin = 0
    for purpose, count in num_chunks.items():
        if purpose in sums:
            os.pwrite(segment, sums[purpose].tobytes(), 8 * begin)
        begin += count


def held_batch(segments: Mapping[str, int], sizes: Mapping[str, int], worker: int) -> Held | None:
    """The batch that a dead worker was computing, if any; that of an earlier incarnation if it had begun none.
    `segments`: descriptors."""
    name, nbytes = gradients(worker), 8 * _IN_WORK_WORDS
    held = InWork(np.frombuffer(os.pread(segments[name], nbytes, sizes[name] - nbytes), np.int64)).held
    return held if held.attempt else None


def newest_version(segments: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    """The weights that a coordinator has completed last: how many steps are done. `segments`: descriptors."""
    (word,) = np.frombuffer(os.pread(segments[WEIGHTS], 8, sizes[WEIGHTS] - PAGE), np.int64)
    return published(int(word)).version
