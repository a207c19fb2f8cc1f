"""The books of one step: which of its batches are in the sum, bucket by bucket. Pure.

A bucket is stepped when it is complete and no batch of the step can be left out any more: when all are known to be
sound (all their numbers finite), or at once if a bad one would end the run, and with it this step (`eager`). A batch
that is left out takes no part in the step: the sums begin anew without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pool.coordinator.books.actions import Fold, TakeBuffers, Update
from pool.exchange.contribution import Contribution
from pool.protocol.messages import Assignment


@dataclass
class Work:
    """One training batch, from its assignment to its last fold."""

    assignment: Assignment
    worker: int
    buckets: set[int] = field(default_factory=set)  # complete in the gradient slot
    absent: tuple[int, ...] = ()
    finished: bool = False


WorkOf = Callable[[int], Work | None]  # batch -> what is known of it


class StepBook:
    def __init__(self, step: int, batches: range, num_buckets: int, *, has_buffers: bool, eager: bool) -> None:
        self.step = step
        self._eager = eager
        self._first = batches.start
        self.batches = list(batches)  # that make the step, in their order (I2)
        self.losses: dict[int, tuple[float, ...]] = {}  # of finished batches, all of them sound; one a member
        self._folded = [0] * num_buckets  # how many of `batches` are in each bucket's sum
        self._updated = [False] * num_buckets
        self._has_buffers = has_buffers
        self._buffers_wanted = has_buffers  # they follow the step's first batch

    @property
    def begun(self) -> bool:
        """Something of it is in the sum."""
        return any(self._folded)

    @property
    def complete(self) -> bool:
        return all(self._updated) and self._all_finished

    @property
    def _all_finished(self) -> bool:
        return all(batch in self.losses for batch in self.batches)

    def is_folded(self, batch: int) -> bool:
        """Every bucket of the batch is in the sum, and nothing else of it is wanted."""
        if self._buffers_wanted and batch == self.batches[0]:
            return False
        return all(count > self.batches.index(batch) for count in self._folded)

    def leave_out(self, batch: int, work_of: WorkOf) -> Iterator[TakeBuffers]:
        """The sums begin anew without this batch; what is not in a slot any more has to be computed again."""
        assert not any(self._updated), f"batch {batch} of step {self.step} is in the weights already"
        if batch == self.batches[0]:
            self._buffers_wanted = False
            if self._has_buffers:
                yield TakeBuffers(self.step, None)
        self.batches.remove(batch)
        self._folded = [0] * len(self._folded)
        for other in self.batches:
            if work_of(other) is None:
                self.losses.pop(other, None)

    def advance(self, work_of: WorkOf, *, starved: bool) -> Iterator[Fold | TakeBuffers | Update]:
        """All that can be folded and updated now: a bucket in one pass when all its batches are there, in parts
        only if gradient slots are needed sooner (`starved`)."""
        if self._buffers_wanted and self.batches:
            first = work_of(self.batches[0])
            if first is not None and first.finished:
                self._buffers_wanted = False
                yield TakeBuffers(self.step, self._contribution(first))
        settled = self._eager or self._all_finished
        for bucket, begin in enumerate(self._folded):
            fold = self._fold(bucket, begin, work_of, starved=starved)
            if fold is not None:
                self._folded[bucket] += len(fold.contributions)
            if self._folded[bucket] == len(self.batches) and settled and not self._updated[bucket]:
                self._updated[bucket] = True
                yield Update(self.step, bucket, len(self.batches), fold)
            elif fold is not None:
                yield fold

    def _fold(self, bucket: int, begin: int, work_of: WorkOf, *, starved: bool) -> Fold | None:
        found = []
        for batch in self.batches[begin:]:
            work = work_of(batch)
            if work is None or bucket not in work.buckets:
                break
            found.append(self._contribution(work))
        complete = begin + len(found) == len(self.batches)
        if not found or not (complete or starved):
            return None
        return Fold(self.step, bucket, tuple(found), begin == 0, complete, len(self.batches))

    def _contribution(self, work: Work) -> Contribution:
        batch, slot = work.assignment.batch, work.assignment.gradient_slot
        return Contribution((batch,), batch - self._first, work.worker, slot, work.absent)
