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
from pool.shm.memory_map import RING, SNAPSHOTS, SUMS, VALIDATION_SLOTS, WEIGHTS, MemoryMap, gradients_segment
from pool.shm.segment import PAGE, Segment, SegmentHandle
from pool.shm.signals import (
    CoordinatorSignals,
    ExceptionText,
    Signal,
    Words,
    WorkerSignals,
    decode_version,
    num_report_words,
    signal_name,
)

_WORK_RECORD_WORDS = 4
_PURPOSES: tuple[Purpose, ...] = get_args(Purpose)

Slot = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class BatchInWork:
    """The batch that a worker is computing, or was computing when it died."""

    attempt: int  # Assignment.attempt; 0: no batch is in work
    purpose: Purpose
    step: int
    batch: int


class WorkRecord:
    """A worker's record, in shared memory, of the batch that it computes. It outlives the worker, and tells which batch
    the worker died of.

    The words are attempt, batch, step, purpose.
    """

    def __init__(self, words: Words) -> None:
        self._words = words

    def start_assignment(self, assignment: Assignment) -> None:
        """Records that the worker starts the first batch of an assignment."""
        self._words[1:] = assignment.batch, assignment.step, _PURPOSES.index(assignment.purpose)
        self._words[0] = assignment.attempt

    def start_batch(self, batch: int) -> None:
        """Records that the worker starts a later batch of the same assignment."""
        self._words[1] = batch

    def end_assignment(self) -> None:
        """Records that the worker computes no batch."""
        self._words[0] = 0

    def read(self) -> BatchInWork:
        """Returns the batch that is recorded. Its `attempt` is 0 if no batch is in work."""
        attempt, batch, step, purpose = self._words.tolist()
        return BatchInWork(attempt, _PURPOSES[purpose], step, batch)


class Memory:
    """The shared segments that one process has mapped, and views of what lies in them."""

    def __init__(self, memory_map: MemoryMap, segments: Mapping[str, SegmentHandle]) -> None:
        """Maps the segments and touches their pages in a background thread. Raises OSError.

        `segments`: handles, by name, of the segments.
        """
        self._map = memory_map
        self._num_report_words = num_report_words(memory_map.max_results)
        self._segments = {
            name: Segment(handle.fd, writable=handle.writable, registered=handle.registered)
            for name, handle in segments.items()
        }
        threading.Thread(target=self._touch_pages, name="touch", daemon=True).start()
        ring = self._segments[RING]
        train, slot_bytes = self._map.train_slots, self._map.slot_nbytes
        self.rings: dict[Purpose, list[Slot]] = {
            "train": ring.slots(0, train, slot_bytes),
            "validate": ring.slots(train * slot_bytes, VALIDATION_SLOTS, slot_bytes),
        }

    def _touch_pages(self) -> None:
        workers = range(self._map.workers)
        scattered = {
            WEIGHTS,
            *map(gradients_segment, workers),
        }  # used row by row; the process that writes makes huge pages
        for name, segment in self._segments.items():
            segment.touch(huge_pages=segment.writable and name in scattered)

    def register(self, register_segment: Callable[[Segment], object]) -> None:
        """Registers every segment with a device's driver, by `register_segment`. Then makes segments read-only that
        this process only reads (I4)."""
        for segment in self._segments.values():
            register_segment(segment)
            segment.make_read_only()

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
        if not self._map.averages or not self._map.halves:
            return None
        nbytes = self._map.weights_nbytes
        return self._segments[WEIGHTS].slots(self._map.halves * nbytes, 1, nbytes)[0]

    def gradient_slots(self, worker: int) -> list[Slot]:
        """Returns the gradient slots of a worker, uint8 each: gradients, then lists of touched rows.

        A slot has no gradients if they lie in a device's memory, and no lists if groups have only one batch.
        """
        nbytes = self._map.gradients_nbytes(worker)
        return self._segments[gradients_segment(worker)].slots(0, self._map.gradient_slots, nbytes)

    def touched_lists(self, worker: int) -> list[Slot]:
        """Returns, for each gradient slot of a worker, the memory of its lists of touched rows."""
        return [slot[slot.size - self._map.lists_nbytes :] for slot in self.gradient_slots(worker)]

    def metric_slot(self, worker: int, batch: int) -> Slot:
        """Returns the memory for the arrays that a worker collects of a validation batch, for metrics."""
        segment = self._segments[gradients_segment(worker)]
        slots = segment.slots(self._map.slots_nbytes(worker), VALIDATION_SLOTS, self._map.collected_nbytes)
        return slots[batch % VALIDATION_SLOTS]

    def chunk_checksums(self) -> dict[Purpose, npt.NDArray[np.uint64]]:
        """Returns the checksums of each stream whose chunks are compared, uint64 [chunks]
        (`loader.stream.Compared`)."""
        words, begin = self._segments[SUMS].array.view(np.uint64), 0
        checksums: dict[Purpose, npt.NDArray[np.uint64]] = {}
        for purpose, count in self._map.num_chunks.items():
            checksums[purpose] = words[begin : begin + count]
            begin += count
        return checksums

    def snapshots(self) -> list[Slot]:
        return [self._segments[name].array for name in SNAPSHOTS]

    def work_record(self, worker: int) -> WorkRecord:
        """Returns the record of the batch that a worker computes."""
        return WorkRecord(self._signal_words(worker)[-_WORK_RECORD_WORDS:])

    def exception_text(self, worker: int) -> ExceptionText:
        """Returns the memory for the text of the exception that ends a worker."""
        return ExceptionText(self._signal_words(worker)[self._num_report_words : -_WORK_RECORD_WORDS])

    def worker_signals(self, peer: Peer, fds: Mapping[str, int]) -> WorkerSignals:
        """Returns a worker's end of the signals through shared memory (`pool.shm.signals`). `fds`: descriptors by
        name."""
        return WorkerSignals(
            self._report_words(peer.index),
            self._version_word,
            own=Signal(fds[signal_name(peer)]),
            coordinator=Signal(fds[signal_name(Peer(COORDINATOR))]),
        )

    def coordinator_signals(self, peer: Peer, fds: Mapping[str, int]) -> CoordinatorSignals:
        """Returns the coordinator's end of the signals through shared memory. `fds`: descriptors by name."""
        workers = range(self._map.workers)
        return CoordinatorSignals(
            peer.incarnation,
            [self._report_words(worker) for worker in workers],
            self._version_word,
            own=Signal(fds[signal_name(peer)]),
            workers=[Signal(fds[signal_name(Peer(WORKER, worker))]) for worker in workers],
        )

    def _report_words(self, worker: int) -> Words:
        """Returns the words in which a worker reports finished batches."""
        return self._signal_words(worker)[: self._num_report_words]

    def _signal_words(self, worker: int) -> Words:
        """Returns all words of a worker's signals: report, exception text, work record."""
        array = self._segments[gradients_segment(worker)].array
        return array[array.size - self._map.signals_nbytes :].view(np.int64)

    @property
    def _version_word(self) -> Words:
        """Returns the word that names the newest version of the weights, int64 [1]."""
        array = self._segments[WEIGHTS].array
        return array[array.size - PAGE :].view(np.int64)[:1]


def write_chunk_checksums(
    segment: int, num_chunks: Mapping[Purpose, int], checksums: Mapping[Purpose, npt.NDArray[np.uint64]]
) -> None:
    """Writes the checksums of chunks that an earlier run has recorded into a new segment. Raises OSError.

    `segment`: its descriptor; `num_chunks`: number of chunks of each stream; `checksums`: uint64 [chunks] of the
    streams that have some.
    """
    begin = 0
    for purpose, count in num_chunks.items():
        if purpose in checksums:
            os.pwrite(segment, checksums[purpose].tobytes(), 8 * begin)
        begin += count


def read_batch_in_work(segments: Mapping[str, int], sizes: Mapping[str, int], worker: int) -> BatchInWork | None:
    """Returns the batch that a dead worker was computing, if any. It is a batch of an earlier incarnation (life) of the
    worker if the dead one had started none.

    `segments`, `sizes`: descriptors and bytes of segments, by name.
    """
    name, nbytes = gradients_segment(worker), 8 * _WORK_RECORD_WORDS
    words = np.frombuffer(os.pread(segments[name], nbytes, sizes[name] - nbytes), np.int64)
    batch = WorkRecord(words).read()
    return batch if batch.attempt else None


def read_newest_version(segments: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    """Returns the newest complete version of the weights: the number of steps that are done. `segments`, `sizes`:
    descriptors and bytes of segments, by name."""
    (word,) = np.frombuffer(os.pread(segments[WEIGHTS], 8, sizes[WEIGHTS] - PAGE), np.int64)
    return decode_version(int(word)).version
