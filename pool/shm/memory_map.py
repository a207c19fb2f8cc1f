"""Defines the shared memory of a run: its segments, their sizes, and which process writes each.

    ring           train slots, then validation slots       feeder writes; workers and coordinator read
    gradients.I    pool.gradient_slots gradient slots, with worker I writes; coordinator reads
                   gradients (`pool.exchange.layout`) and
                   lists of a group's touched rows, then
                   slots for what the worker collects in
                   validations, if the task has metrics,
                   then pages of int64 (`signals`): the
                   batches finished last, the exception that
                   ended the worker, the batch in work
    weights        two versions of Plan.nbytes,             coordinator writes; workers read
                   then their average, if the run has one,
                   then a page: the number of the newest
                   version (`signals`)
    snapshot.0, 1  copies of weights and optimizer state    coordinator writes; its successor reads
    sums           a checksum (uint64) for each chunk of    feeder writes, and compares what its predecessors wrote;
                   the data: train, then validation         coordinator reads

With an exchange on a device (`pool.exchange.device`) weights and gradients of the workers on it lie in its memory, and
the segments of these workers have no room for them.

Batch k of a ring lies in ring slot k mod count. What a worker collects of validation batch k stays in its slot k mod
VALIDATION_SLOTS until the coordinator has been told and has copied it. Version t of the weights (after t steps) lies in
half t mod 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pool.protocol.identity import COORDINATOR, FEEDER, WORKER, Peer
from pool.protocol.messages import Purpose
from pool.shm.segment import PAGE

RING = "ring"
WEIGHTS = "weights"
SNAPSHOTS = ("snapshot.0", "snapshot.1")
SUMS = "sums"
VALIDATION_SLOTS = 2


def gradients_segment(worker: int) -> str:
    return f"gradients.{worker}"


@dataclass(frozen=True)
class MemoryMap:
    """The sizes and counts from which the bytes of each segment follow."""

    train_slots: int  # number of the ring's slots for training batches
    slot_nbytes: int
    weights_nbytes: int  # `Plan.nbytes`
    slot_gradients_nbytes: int  # `Plan.nbytes` of a gradient slot
    gradient_slots: int  # of each worker
    workers: int
    state_nbytes: int  # bytes of a snapshot
    num_chunks: Mapping[Purpose, int]  # number of chunks of each stream whose chunks are compared
    collected_nbytes: int = 0  # bytes that a worker collects of one validation batch, for metrics
    members: int = 1
    averages: bool = False  # there is room for averaged weights
    batches_per_group: int = 1
    train_metrics: int = 0  # number of metrics measured of a training batch
    lists_nbytes: int = 0  # bytes of a gradient slot's lists of touched rows (`pool.exchange.touched_lists`)
    # workers whose weights and gradients lie in a device's memory when the run begins
    workers_without_slots: tuple[int, ...] = ()

    @property
    def halves(self) -> int:
        """Returns the number of versions of the weights that have room: two if any worker reads them in shared memory,
        else none."""
        return 2 if len(self.workers_without_slots) < self.workers else 0

    def gradients_nbytes(self, worker: int) -> int:
        """Returns the bytes of one gradient slot of a worker: gradients, then lists of touched rows."""
        if worker in self.workers_without_slots:
            return self.lists_nbytes
        return self.slot_gradients_nbytes + self.lists_nbytes

    @property
    def max_results(self) -> int:
        """Returns the greatest number of losses and metrics that a worker reports at a time."""
        return self.members * self.batches_per_group * (1 + self.train_metrics)

    @property
    def signals_nbytes(self) -> int:
        """Returns the bytes of the signals that follow a worker's slots: whole pages, one as a rule."""
        return -(-(8 * self.max_results + PAGE // 2) // PAGE) * PAGE

    def slots_nbytes(self, worker: int) -> int:
        """Returns the bytes of all gradient slots of a worker."""
        return self.gradient_slots * self.gradients_nbytes(worker)

    def sizes(self) -> dict[str, int]:
        """Returns the bytes of each segment, by name."""
        num_weights = self.halves + 1 if self.averages and self.halves > 0 else self.halves
        sums_nbytes = 8 * sum(self.num_chunks.values())
        sizes = {
            RING: (self.train_slots + VALIDATION_SLOTS) * self.slot_nbytes,
            WEIGHTS: num_weights * self.weights_nbytes + PAGE,
            **dict.fromkeys(SNAPSHOTS, self.state_nbytes),
            SUMS: max(1, -(-sums_nbytes // PAGE)) * PAGE,
        }
        for worker in range(self.workers):
            metrics_nbytes = VALIDATION_SLOTS * self.collected_nbytes
            sizes[gradients_segment(worker)] = self.slots_nbytes(worker) + metrics_nbytes + self.signals_nbytes
        return sizes


def segment_permissions(peer: Peer, sizes: Mapping[str, int]) -> dict[str, bool]:
    """Returns the names of the segments that a process may map, each with whether the process may write it (I4)."""
    if peer.role == FEEDER:
        return {RING: True, SUMS: True}
    if peer.role == WORKER:
        return {RING: False, WEIGHTS: False, gradients_segment(peer.index): True}
    if peer.role == COORDINATOR:
        return {name: name in (WEIGHTS, *SNAPSHOTS) for name in sizes}
    return {}
