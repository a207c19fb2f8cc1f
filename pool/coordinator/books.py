"""The coordinator's books: who computes which batch, what is folded, when a step is complete.

Pure: no sockets, no torch, no clock. Events go in (`worker_joined`, `worker_lost`, `worker_report`, ...),
actions come out; the caller carries them out in order. Reads like the invariants:

- step t takes batches tG .. tG+G-1 and folds each bucket's gradients in that order, whoever computed
  them and in whatever order they came (I2);
- a batch of step t is computed with version t; the ring keeps it until t is committed (I3);
- a gradient slot belongs to its worker until every bucket in it is folded, or to nobody when that worker is
  dead: what it had finished stays valid, the rest is computed again (I4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import fmean

from pool.coordinator.actions import (
    Action,
    Commit,
    End,
    Fold,
    OrderFeeder,
    OrderWorker,
    Source,
    TakeBuffers,
    Validated,
)
from pool.coordinator.ring import RingBook
from pool.protocol.identity import Peer
from pool.protocol.messages import (
    Assignment,
    BatchReport,
    CursorState,
    FeederOrders,
    FeederReport,
    WorkerOrders,
    WorkerReport,
)

IN_FLIGHT = 2  # assignments of a worker at a time, so that copying the next batch overlaps computing


@dataclass(frozen=True)
class Rules:
    """What does not change during a run."""

    steps: int
    batches_per_step: int
    num_buckets: int
    gradient_slots: int  # of each worker
    has_buffers: bool
    validate_every: int  # steps; 0: never
    validation_batches: int


@dataclass
class _Work:
    """One training batch, from its assignment to its last fold."""

    assignment: Assignment
    worker: int
    buckets: set[int] = field(default_factory=set)  # complete in the gradient slot
    absent: tuple[int, ...] = ()
    finished: bool = False
    loss: float = 0.0

    @property
    def source(self) -> Source:
        return Source(self.assignment.batch, self.worker, self.assignment.gradient_slot, self.absent)


@dataclass
class _Worker:
    """A living worker: its assignments in the order given."""

    peer: Peer
    assignments: list[Assignment] = field(default_factory=list)
    sent: WorkerOrders | None = None


class Books:
    def __init__(self, rules: Rules, step: int, start: CursorState, generation: int, validated: int = -1) -> None:
        self.rules = rules
        self.step = step  # the step in progress, and so the newest complete version
        self.train = RingBook(start, generation)
        self.validation = RingBook(CursorState(0, 0, 0, 0), generation) if rules.validate_every else None
        self._workers: dict[int, _Worker] = {}
        self._feeder: Peer | None = None
        self._feeder_sent: FeederOrders | None = None
        self._work: dict[int, _Work] = {}  # by batch, of steps `step` and `step + 1`
        self._held: set[tuple[int, int]] = set()  # (worker, slot) whose gradients are not folded yet
        self._folded = [0] * rules.num_buckets  # batches of this step folded, per bucket
        self._buffers_taken = False
        self._losses: dict[int, float] = {}
        self._validated = validated if rules.validate_every else rules.steps  # newest version validated or not due
        self._validation_work: dict[int, int] = {}  # batch -> worker
        self._validation_losses: dict[int, float] = {}
        self._draining = False
        self._ended = False

    # --- events ---

    def worker_joined(self, peer: Peer) -> list[Action]:
        """A worker is up; of an index that is new, or whose last holder was reported lost."""
        assert peer.index not in self._workers, f"I4: {peer} joins before its predecessor was lost"
        self._workers[peer.index] = _Worker(peer)
        return self._advance()

    def worker_lost(self, peer: Peer) -> list[Action]:
        """A worker is dead: what it had not finished goes back, what it had finished stays where it lies."""
        worker = self._workers.get(peer.index)
        if worker is None or worker.peer != peer:
            return []
        del self._workers[peer.index]
        for batch, work in list(self._work.items()):
            if work.worker == peer.index and not work.finished:
                del self._work[batch]
                self._held.discard((work.worker, work.assignment.gradient_slot))
        self._validation_work = {b: w for b, w in self._validation_work.items() if w != peer.index}
        self._take_back_next_step()
        return self._advance()

    def worker_report(self, peer: Peer, report: WorkerReport) -> list[Action]:
        worker = self._workers.get(peer.index)
        if worker is None or worker.peer != peer:
            return []
        for batch in report.batches:
            if batch.assignment in worker.assignments:
                self._batch_report(worker, batch)
        return self._advance()

    def feeder_joined(self, peer: Peer) -> list[Action]:
        self._feeder = peer
        self._feeder_sent = None
        return self._advance()

    def feeder_lost(self, peer: Peer) -> list[Action]:
        if self._feeder == peer:
            self._feeder = None
            self.train.restart()
            if self.validation is not None:
                self.validation.restart()
        return []

    def feeder_report(self, peer: Peer, report: FeederReport) -> list[Action]:
        if self._feeder != peer:
            return []
        self.train.report(report.train)
        if self.validation is not None:
            self.validation.report(report.validation)
        return self._advance()

    def drain(self) -> list[Action]:
        """No new step is begun; the one in progress is finished."""
        self._draining = True
        self._take_back_next_step()
        return self._advance()

    def say_again(self) -> list[Action]:
        """All orders once more, for whoever may have missed them (I5)."""
        for worker in self._workers.values():
            worker.sent = None
        self._feeder_sent = None
        return list(self._orders())

    # --- decisions ---

    def _batch_report(self, worker: _Worker, report: BatchReport) -> None:
        batch = report.assignment.batch
        if report.assignment.purpose == "validate":
            if report.finished and self._validation_work.pop(batch, None) is not None:
                self._validation_losses[batch] = report.loss
                self._retire(worker, report.assignment)
            return
        work = self._work[batch]
        work.buckets.update(report.buckets)
        if report.finished and not work.finished:
            work.buckets.update(range(self.rules.num_buckets))
            work.absent = report.absent
            work.loss = report.loss
            work.finished = True
            self._losses[batch] = report.loss
            self._retire(worker, report.assignment)

    @staticmethod
    def _retire(worker: _Worker, assignment: Assignment) -> None:
        worker.assignments.remove(assignment)

    def _take_back_next_step(self) -> None:
        """Batches of the next step are given out early; nobody has begun one, so their slots can be had back."""
        for batch, work in list(self._work.items()):
            if work.assignment.step > self.step:
                self._workers[work.worker].assignments.remove(work.assignment)
                self._held.discard((work.worker, work.assignment.gradient_slot))
                del self._work[batch]

    def _advance(self) -> list[Action]:
        """Does all that the state allows, in one fixed order."""
        actions: list[Action] = []
        while not self._ended:
            actions += self._validate()
            self._assign()
            if self._validation_due():
                break
            folds = list(self._fold())
            actions += folds
            if self._step_complete():
                actions.append(self._commit())
            elif not folds:
                break
        if not self._ended and self._at_end():
            self._ended = True
            actions.append(End())
        actions += self._orders()
        return actions

    def _at_end(self) -> bool:
        if self._draining and not self._begun():
            return True
        return self.step == self.rules.steps and not self._validation_due()

    def _validation_due(self) -> bool:
        every = self.rules.validate_every
        due = every > 0 and (self.step % every == 0 or self.step == self.rules.steps)
        return due and self._validated < self.step

    def _validate(self) -> Iterator[Action]:
        if not self._validation_due() or self.validation is None:
            return
        done = self.validation.freed
        while done in self._validation_losses:
            done += 1
        self.validation.free(done)
        if done == self.rules.validation_batches:
            losses = [self._validation_losses[batch] for batch in range(done)]
            self._validated = self.step
            self._validation_losses.clear()
            self.validation.rewind(CursorState(0, 0, 0, 0))
            yield Validated(self.step, fmean(losses))

    def _assign(self) -> None:
        if self._validation_due():
            assert self.validation is not None
            for batch in range(self.validation.freed, min(self.validation.filled, self.rules.validation_batches)):
                if batch in self._validation_work or batch in self._validation_losses:
                    continue
                worker = self._least_busy()
                if worker is None:
                    return
                worker.assignments.append(Assignment("validate", self.step, batch, -1))
                self._validation_work[batch] = worker.peer.index
            return
        per_step = self.rules.batches_per_step
        ahead = 1 if self._draining else 2
        end = min((self.step + ahead) * per_step, self.rules.steps * per_step, self.train.filled)
        for batch in range(self.step * per_step, end):
            if batch in self._work or batch in self._losses:
                continue
            if self._draining and not self._begun():
                return
            chosen = self._least_busy(with_slot=True)
            if chosen is None:
                return
            slot = self._free_slots(chosen)[0]
            assignment = Assignment("train", batch // per_step, batch, slot)
            chosen.assignments.append(assignment)
            self._held.add((chosen.peer.index, slot))
            self._work[batch] = _Work(assignment, chosen.peer.index)

    def _begun(self) -> bool:
        return any(self._folded) or any(work.assignment.step == self.step for work in self._work.values())

    def _least_busy(self, *, with_slot: bool = False) -> _Worker | None:
        able = [
            worker
            for worker in self._workers.values()
            if len(worker.assignments) < IN_FLIGHT and (not with_slot or self._free_slots(worker))
        ]
        return min(able, key=lambda worker: (len(worker.assignments), worker.peer.index), default=None)

    def _free_slots(self, worker: _Worker) -> list[int]:
        return [slot for slot in range(self.rules.gradient_slots) if (worker.peer.index, slot) not in self._held]

    def _is_folded(self, batch: int) -> bool:
        """Every bucket of this batch of the current step is in the sum."""
        return min(self._folded, default=0) > batch - self.step * self.rules.batches_per_step

    def _fold(self) -> Iterator[Action]:
        """A bucket is folded in one pass when all its batches are there; in parts if slots are needed sooner."""
        first_batch = self.step * self.rules.batches_per_step
        count = self.rules.batches_per_step
        starved = self._starved()
        if self.rules.has_buffers and not self._buffers_taken:
            work = self._work.get(first_batch)
            if work is not None and work.finished:
                self._buffers_taken = True
                yield TakeBuffers(self.step, work.source)
        for bucket in range(self.rules.num_buckets):
            begin = self._folded[bucket]
            sources = []
            for i in range(begin, count):
                work = self._work.get(first_batch + i)
                if work is None or bucket not in work.buckets:
                    break
                sources.append(work.source)
            complete = begin + len(sources) == count
            if sources and (complete or starved):
                self._folded[bucket] += len(sources)
                yield Fold(self.step, bucket, tuple(sources), first=begin == 0, last=complete)
        for batch in range(first_batch, first_batch + count):
            work = self._work.get(batch)
            if work is not None and work.finished and self._is_folded(batch):
                if batch == first_batch and self.rules.has_buffers and not self._buffers_taken:
                    continue
                del self._work[batch]
                self._held.discard((work.worker, work.assignment.gradient_slot))

    def _starved(self) -> bool:
        """A batch of this step is ready, and there are workers, but none has a gradient slot for it."""
        begin = self.step * self.rules.batches_per_step
        waiting = any(
            batch not in self._work and batch not in self._losses
            for batch in range(begin, min(begin + self.rules.batches_per_step, self.train.filled))
        )
        workers = self._workers.values()
        return waiting and bool(workers) and not any(self._free_slots(worker) for worker in workers)

    def _step_complete(self) -> bool:
        if self.step >= self.rules.steps:
            return False
        begin = self.step * self.rules.batches_per_step
        batches = range(begin, begin + self.rules.batches_per_step)
        return all(batch in self._losses for batch in batches) and all(
            count == self.rules.batches_per_step for count in self._folded
        )

    def _commit(self) -> Commit:
        per_step = self.rules.batches_per_step
        begin, end = self.step * per_step, (self.step + 1) * per_step
        action = Commit(self.step, tuple(self._losses.pop(b) for b in range(begin, end)), self.train.cursor(end))
        self.step += 1
        self._folded = [0] * self.rules.num_buckets
        self._buffers_taken = False
        self.train.free(end)
        return action

    def _orders(self) -> Iterator[Action]:
        """Orders that differ from what the addressee was told last."""
        for worker in self._workers.values():
            orders = WorkerOrders(self.step, tuple(worker.assignments))
            if orders != worker.sent:
                worker.sent = orders
                yield OrderWorker(worker.peer, orders)
        if self._feeder is not None:
            feeder_orders = FeederOrders(
                self.train.orders(), None if self.validation is None else self.validation.orders()
            )
            if feeder_orders != self._feeder_sent:
                self._feeder_sent = feeder_orders
                yield OrderFeeder(self._feeder, feeder_orders)
