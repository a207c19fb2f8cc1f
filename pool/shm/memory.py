"""Gives one process views of a run's shared memory, which it has mapped. `pool.shm.memory_map` describes the layout."""

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
    """The batch that a worker is computing, or was computing when it died."""

    attempt: int  # Assignment.attempt; 0: no batch is in work
    purpose: Purpose
    step: int
    batch: int


class InWork:
    """Numbers in shared memory that outlive a worker and tell which batch it died of: attempt, batch, step, purpose."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def begin(self, assignment: Assignment) -> None:
        """Notes that the worker begins the first batch of an assignment."""
        self._words[1:] = assignment.batch, assignment.step, _PURPOSES.index(assignment.purpose)
        self._words[0] = assignment.attempt

    def next(self, batch: int) -> None:
        """Notes that the worker begins another batch of the same assignment."""
        self._words[1] = batch

    def end(self) -> None:
        """Notes that the worker computes no batch."""
        self._words[0] = 0

    @property
    def held(self) -> Held:
        """Returns the numbers as they are in memory. `attempt` is 0 if no batch is in work."""
        attempt, batch, step, purpose = self._words.tolist()
        return Held(attempt, _PURPOSES[purpose], step, batch)


class Memory:
    """The shared segments that one process has mapped, and views of what lies in them."""

    def __init__(self, memory_map: MemoryMap, segments: Mapping[str, SegmentHandle]) -> None:
        """Maps the segments and touches their pages in a background thread. Raises OSError.

        `segments`: handles, by name, of the segments that the process is given.
        """
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
        scattered = {WEIGHTS, *map(gradients, range(self._map.workers))}  # used row by row; the writer makes huge pages
        for name, segment in self._segments.items():
            segment.touch(huge_pages=segment.writable and name in scattered)

    def register(self, with_device: Callable[[Segment], object]) -> None:
        """Registers every segment with a device's driver, by `with_device`. Makes segments read-only that this process
        only reads (I4)."""
        for segment in self._segments.values():
            with_device(segment)
            segment.protect()

    def batch_slot(self, purpose: Purpose, batch: int) -> Slot:
        """Returns the ring slot of a batch, by its number."""
        ring = self.rings[purpose]
        return ring[batch % len(ring)]

    def weight_halves(self) -> list[Slot]:
        """Returns the memory of both versions of the weights, or nothing if they lie in a device's memory alone."""
        return self._segments[WEIGHTS].slots(0, self._map.halves, self._map.weights_nbytes)

    def average(self) -> Slot | None:
        """Returns the memory of the averaged weights. None if the run has none, or has them in a device's memory
        alone."""
        nbytes = self._map.weights_nbytes
        begin = self._map.halves * nbytes
        return self._segments[WEIGHTS].slots(begin, 1, nbytes)[0] if self._map.averages and begin else None

    def gradient_slots(self, worker: int) -> list[Slot]:
        """Returns the gradient slots of a worker, uint8 each: gradients, then lists of touched rows.

        A slot has no gradients if they lie in a device's memory, and no lists if groups have only one batch.
        """
        nbytes = self._map.gradients_nbytes(worker)
        return self._segments[gradients(worker)].slots(0, self._map.gradient_slots, nbytes)

    def touched_lists(self, worker: int) -> list[Slot]:
        """Returns, for each gradient slot of a worker, the memory of its lists of touched rows."""
        return [slot[slot.size - self._map.lists_nbytes :] for slot in self.gradient_slots(worker)]

    def collected(self, worker: int, batch: int) -> Slot:
        """Returns the memory for what the worker collects of a validation batch, for metrics."""
        segment = self._segments[gradients(worker)]
        places = segment.slots(self._map.slots_nbytes(worker), VALIDATION_SLOTS, self._map.collected_nbytes)
        return places[batch % VALIDATION_SLOTS]

    def sums(self) -> dict[Purpose, npt.NDArray[np.uint64]]:
        """Returns the checksums of each stream whose chunks are compared, uint64 [chunks]
        (`loader.stream.Compared`)."""
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
        """Returns the slot for the text of the exception that ends the worker."""
        return Raised(self._signals(worker)[self._finished_words : -_IN_WORK_WORDS])

    def worker_end(self, peer: Peer, bells: Mapping[str, int]) -> WorkerEnd:
        """Returns a worker's end of the signals through shared memory (`pool.shm.signals`). `bells`: descriptors by
        name."""
        return WorkerEnd(
            self._finished(peer.index),
            self._newest,
            mine=Bell(bells[name_of(peer)]),
            coordinators=Bell(bells[name_of(Peer(COORDINATOR))]),
        )

    def coordinator_end(self, peer: Peer, bells: Mapping[str, int]) -> CoordinatorEnd:
        """Returns the coordinator's end of the signals through shared memory. `bells`: descriptors by name."""
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
        """Returns the word that names the newest version of the weights."""
        array = self._segments[WEIGHTS].array
        return array[array.size - PAGE :].view(np.int64)[:1]


def write_sums(segment: int, num_chunks: Mapping[Purpose, int], sums: Mapping[Purpose, npt.NDArray[np.uint64]]) -> None:
    """Writes the checksums of chunks that are already known into a new segment. Raises OSError.

    `segment`: its descriptor; `num_chunks`: number of chunks of each stream; `sums`: uint64 [chunks] of those that are
    known.
    """
    begin = 0
    for purpose, count in num_chunks.items():
        if purpose in sums:
            os.pwrite(segment, sums[purpose].tobytes(), 8 * begin)
        begin += count


def held_batch(segments: Mapping[str, int], sizes: Mapping[str, int], worker: int) -> Held | None:
    """Returns the batch that a dead worker was computing, if any. It is a batch of an earlier incarnation (life) of the
    worker if this one had begun none.

    `segments`, `sizes`: descriptors and bytes of segments, by name.
    """
    name, nbytes = gradients(worker), 8 * _IN_WORK_WORDS
    held = InWork(np.frombuffer(os.pread(segments[name], nbytes, sizes[name] - nbytes), np.int64)).held
    return held if held.attempt else None


def newest_version(segments: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    """Returns the newest complete version of the weights: the number of steps that are done. `segments`, `sizes`:
    descriptors and bytes of segments, by name."""
    (word,) = np.frombuffer(os.pread(segments[WEIGHTS], 8, sizes[WEIGHTS] - PAGE), np.int64)
    return published(int(word)).version
