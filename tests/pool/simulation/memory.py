"""The shared memory of a simulated run. Raises AssertionError where two have the same piece of it (I4)."""

from __future__ import annotations

import numpy as np

from pool.protocol.identity import Peer
from pool.protocol.messages import Purpose
from pool.shm.signals import CoordinatorSignals, ExceptionText, Signal, WorkerSignals, num_report_words
from tests.pool.simulation.arithmetic import BUFFERS, Version, Weights, content, cursor_of, first_version
from tests.pool.simulation.setup import VALIDATION_SLOTS, Setup

TORN = -3  # content of what is being written, and of what its writer left behind half written


class SilentSignal(Signal):
    def __init__(self) -> None:
        super().__init__(-1)

    def set(self) -> None:
        pass


SILENT = SilentSignal()


class Memory:
    def __init__(self, setup: Setup) -> None:
        self.rings: dict[Purpose, list[int]] = {
            "train": [TORN] * setup.ring_slots,
            "validate": [TORN] * VALIDATION_SLOTS,
        }
        self.gradients: dict[tuple[int, int], dict[int, int]] = {}  # (worker, slot) -> by bucket
        start = first_version(setup)
        self.halves: list[list[int]] = [list(start.weights), [TORN] * setup.rules.num_buckets]
        self.buffers = [list(start.buffers), [TORN] * len(setup.members)]
        self.averages = list(start.averages)  # a number a member
        self.attempts = [(0, 0)] * setup.workers  # by worker: what it computes, 0 between assignments; which batch
        self.exception_texts = [ExceptionText(np.zeros(4, np.int64)) for _ in range(setup.workers)]  # by worker
        self._setup = setup
        self._collected: dict[tuple[int, int], tuple[int, ...]] = {}  # (worker, place) -> of a validation batch
        losses = len(setup.members) * setup.rules.batches_per_group
        self._finished = [np.zeros(num_report_words(losses), np.int64) for _ in range(setup.workers)]
        self._version = np.zeros(1, np.int64)
        self._readers: dict[Peer, tuple[Purpose, int]] = {}

    # --- the short way; no signal wakes anybody: all look when they like ---

    def worker_signals(self, worker: int) -> WorkerSignals:
        return WorkerSignals(self._finished[worker], self._version, own=SILENT, coordinator=SILENT)

    def coordinator_signals(self, incarnation: int) -> CoordinatorSignals:
        return CoordinatorSignals(incarnation, self._finished, self._version, own=SILENT, workers=())

    # --- the ring ---

    def begin_batch(self, purpose: Purpose, slot: int) -> None:
        """The feeder begins to write."""
        reader = next((peer for peer, place in self._readers.items() if place == (purpose, slot)), None)
        assert reader is None, f"I4: {purpose} slot {slot} is written while {reader} ({reader!r}) reads it"
        self.rings[purpose][slot] = TORN

    def end_batch(self, purpose: Purpose, slot: int, written: int) -> None:
        self.rings[purpose][slot] = written

    def begin_reading(self, peer: Peer, purpose: Purpose, batch: int) -> None:
        self._readers[peer] = (purpose, batch % len(self.rings[purpose]))

    def check_batch(self, purpose: Purpose, batch: int) -> None:
        ring = self.rings[purpose]
        held = ring[batch % len(ring)]
        assert held == content(cursor_of(batch)), f"I3: {purpose} batch {batch} is not in its slot"

    def end_reading(self, peer: Peer) -> None:
        """It has read to the end, or is dead."""
        self._readers.pop(peer, None)

    # --- gradients ---

    def begin_gradients(self, worker: int, slot: int) -> None:
        """From now on nothing of what lay there before may be taken."""
        self.gradients[worker, slot] = {}

    def write_gradient(self, worker: int, slot: int, bucket: int, value: int) -> None:
        self.gradients[worker, slot][bucket] = value

    def gradient(self, worker: int, slot: int, bucket: int = BUFFERS) -> int:
        return self.gradients.get((worker, slot), {}).get(bucket, TORN)

    # --- what is collected of validation batches ---

    def write_collected(self, worker: int, batch: int, value: tuple[int, ...]) -> None:
        self._collected[worker, batch % VALIDATION_SLOTS] = value

    def collected(self, worker: int, batch: int) -> tuple[int, ...]:
        """A number a member."""
        return self._collected.get((worker, batch % VALIDATION_SLOTS), (TORN,) * len(self._setup.members))

    # --- weights ---

    def weights(self, version: int) -> Weights:
        """As they lie in the version's half now, complete or not."""
        return tuple(self.halves[version % 2])

    def begin_version(self, number: int, version: Version) -> None:
        """A coordinator publishes what it begins with; the other half is not worth anything to it."""
        here, there = number % 2, (number + 1) % 2
        self.halves[here] = list(version.weights)
        self.buffers[here] = list(version.buffers)
        self.averages = list(version.averages)
        self.halves[there] = [TORN] * len(version.weights)
        self.buffers[there] = [TORN] * len(version.buffers)

    def freeze(self, number: int, member: int) -> None:
        """Both halves hold this version of the member."""
        here, there = number % 2, (number + 1) % 2
        for bucket in self._setup.buckets_of(member):
            self.halves[there][bucket] = self.halves[here][bucket]
        self.buffers[there][member] = self.buffers[here][member]
