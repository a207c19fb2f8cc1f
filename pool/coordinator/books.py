"""The coordinator's books: who computes which batch, what is folded, when a step is complete.

Pure: no sockets, no torch, no clock. Events go in (`worker_joined`, `worker_lost`, `worker_report`, ...),
actions come out; the caller carries them out in order. Reads like the invariants:

- step t takes batches tG .. tG+G-1 and folds each bucket's gradients in that order, whoever computed
  them and in whatever order they came (I2);
- a batch of step t is computed with version t; the ring keeps it until t is committed (I3);
- a gradient slot belongs to its worker until every bucket in it is folded, or to nobody when that worker is
  dead: what it had finished stays valid, the rest is computed again (I4);
- when the coordinator has died, its successor orders the feeder nothing before every worker that was alive at its
  start has spoken to it or is dead. A worker speaks to it only when nothing of the old life is in work there
  (`Desk.may_speak`), so no ring slot is filled again under a reader (I4). Weights need no such wait: what is
  computed with half of the old ones is reported to nobody, and its gradient slot has the same worker's next
  batch to wait for, which begins when that one has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal

from pool.coordinator.actions import (
    Action,
    BadBatch,
    Commit,
    End,
    OrderFeeder,
    OrderWorker,
    Validated,
)
from pool.coordinator.ring import RingBook
from pool.coordinator.step_book import StepBook, Work
from pool.protocol.identity import Peer
from pool.protocol.messages import (
    Assignment,
    BatchReport,
    CursorState,
    FeederOrders,
    FeederReport,
    Purpose,
    WorkerOrders,
    WorkerReport,
)

DEADLY = 3  # deaths of workers that held a batch, after which it is bad
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
    on_bad_batch: Literal["stop", "skip"] = "stop"


@dataclass
class _Worker:
    """A living worker: its assignments in the order given."""

    peer: Peer
    assignments: list[Assignment] = field(default_factory=list)
    sent: WorkerOrders | None = None


class Books:
    def __init__(
        self,
        rules: Rules,
        step: int,
        start: CursorState,
        generation: int,
        *,
        validated: int = -1,
        successor: bool = False,
    ) -> None:
        """`generation`: of the first orders to the feeder, higher than any before by 2 ** 32 a life of the
        coordinator; `validated`: newest version with a validation on record; `successor`: another coordinator
        has died in this run, and the others live on."""
        self.rules = rules
        self.step = step  # the step in progress, and so the newest complete version
        self.train = RingBook(start, generation)
        self.validation = RingBook(CursorState(0, 0, 0, 0), generation) if rules.validate_every else None
        self._workers: dict[int, _Worker] = {}
        self._feeder: Peer | None = None
        self._feeder_sent: FeederOrders | None = None
        self._work: dict[int, Work] = {}  # by batch, of steps `step` and `step + 1`
        self._held: set[tuple[int, int]] = set()  # (worker, slot) whose gradients are not folded yet
        self._attempts = generation  # as unique: a worker may die of an attempt that an earlier life numbered
        self._unheard: set[Peer] | None = None if successor else set()  # may hold old jobs; None: no roster yet
        self._deaths: Counter[int] = Counter()  # by batch of this step
        self._step = self._open_step()
        self._validated = validated if rules.validate_every else rules.steps  # newest version validated or not due
        self._validation_work: dict[int, int] = {}  # batch -> worker
        self._validation_losses: dict[int, float] = {}
        self._draining = False
        self._ended = False

    # --- events ---

    def roster(self, workers: Set[Peer]) -> list[Action]:
        """Who of the workers is alive. Those of a successor's first roster may still compute for the dead one."""
        self._unheard = set(workers) if self._unheard is None else self._unheard & workers
        return list(self._orders())

    def worker_joined(self, peer: Peer) -> list[Action]:
        """A worker is up; of an index that is new, or whose last holder was reported lost."""
        assert peer.index not in self._workers, f"I4: {peer} joins before its predecessor was lost"
        self._workers[peer.index] = _Worker(peer)
        if self._unheard is not None:
            self._unheard.discard(peer)
        return self._advance()

    def worker_lost(self, peer: Peer, attempt: int = 0) -> list[Action]:
        """A worker is dead: what it had not finished goes back, what it had finished stays where it lies.

        `attempt`: of the batch that it was computing, 0 if it was computing none.
        """
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
        return [*self._blame(worker, attempt), *self._advance()]

    def worker_report(self, peer: Peer, report: WorkerReport) -> list[Action]:
        worker = self._workers.get(peer.index)
        if worker is None or worker.peer != peer:
            return []
        actions: list[Action] = []
        for batch in report.batches:
            if batch.assignment in worker.assignments:
                actions += self._batch_report(worker, batch)
        return actions + self._advance()

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

    def _batch_report(self, worker: _Worker, report: BatchReport) -> Iterator[Action]:
        batch = report.assignment.batch
        if report.finished:
            worker.assignments.remove(report.assignment)
        if report.assignment.purpose == "validate":
            if report.finished and self._validation_work.pop(batch, None) is not None:
                self._validation_losses[batch] = report.loss
            return
        work = self._work[batch]
        if report.unsound:
            yield from self._leave_out(batch, f"{report.unsound} is not finite ({worker.peer})")
            return
        work.buckets.update(report.buckets)
        if report.finished:
            work.buckets.update(range(self.rules.num_buckets))
            work.absent = report.absent
            work.finished = True
            self._step.losses[batch] = report.loss

    def _blame(self, dead: _Worker, attempt: int) -> Iterator[Action]:
        """A batch that workers die of is bad."""
        held = [a.batch for a in dead.assignments if a.attempt == attempt and a.purpose == "train"]
        for batch in held:
            self._deaths[batch] += 1
            if self._deaths[batch] == DEADLY and batch in self._step.batches:
                yield from self._leave_out(batch, f"{DEADLY} workers died while they held it")

    def _leave_out(self, batch: int, why: str) -> Iterator[Action]:
        """Only here is it decided that a batch takes no part in its step."""
        fatal = self.rules.on_bad_batch == "stop"
        yield BadBatch(self.step, batch, why, self.train.cursor(batch), fatal)
        work = self._work.pop(batch, None)
        if work is not None:
            self._held.discard((work.worker, work.assignment.gradient_slot))
        self._step.leave_out(batch, self._work.get)

    def _open_step(self) -> StepBook:
        per_step = self.rules.batches_per_step
        batches = range(self.step * per_step, (self.step + 1) * per_step)
        return StepBook(self.step, batches, self.rules.num_buckets, has_buffers=self.rules.has_buffers)

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
            if self.step < self.rules.steps and self._step.complete:
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
                worker.assignments.append(self._assignment("validate", batch, -1))
                self._validation_work[batch] = worker.peer.index
            return
        per_step = self.rules.batches_per_step
        ahead = 1 if self._draining else 2
        end = min((self.step + ahead) * per_step, self.rules.steps * per_step, self.train.filled)
        for batch in range(self.step * per_step, end):
            if batch in self._work or not self._wanted(batch):
                continue
            if self._draining and not self._begun():
                return
            chosen = self._least_busy(with_slot=True)
            if chosen is None:
                return
            slot = self._free_slots(chosen)[0]
            assignment = self._assignment("train", batch, slot)
            chosen.assignments.append(assignment)
            self._held.add((chosen.peer.index, slot))
            self._work[batch] = Work(assignment, chosen.peer.index)

    def _assignment(self, purpose: Purpose, batch: int, slot: int) -> Assignment:
        self._attempts += 1
        step = self.step if purpose == "validate" else batch // self.rules.batches_per_step
        return Assignment(purpose, step, batch, slot, self._attempts)

    def _wanted(self, batch: int) -> bool:
        """Its gradients are still to be computed."""
        if batch >= (self.step + 1) * self.rules.batches_per_step:
            return True
        return batch in self._step.batches and batch not in self._step.losses

    def _begun(self) -> bool:
        return self._step.begun or any(work.assignment.step == self.step for work in self._work.values())

    def _least_busy(self, *, with_slot: bool = False) -> _Worker | None:
        able = [
            worker
            for worker in self._workers.values()
            if len(worker.assignments) < IN_FLIGHT and (not with_slot or self._free_slots(worker))
        ]
        return min(able, key=lambda worker: (len(worker.assignments), worker.peer.index), default=None)

    def _free_slots(self, worker: _Worker) -> list[int]:
        return [slot for slot in range(self.rules.gradient_slots) if (worker.peer.index, slot) not in self._held]

    def _fold(self) -> Iterator[Action]:
        yield from self._step.advance(self._work.get, starved=self._starved())
        for batch in self._step.batches:
            work = self._work.get(batch)
            if work is not None and work.finished and self._step.is_folded(batch):
                del self._work[batch]
                self._held.discard((work.worker, work.assignment.gradient_slot))

    def _starved(self) -> bool:
        """A batch of this step is ready, and there are workers, but none has a gradient slot for it."""
        waiting = any(
            batch < self.train.filled and batch not in self._work and self._wanted(batch)
            for batch in self._step.batches
        )
        workers = self._workers.values()
        return waiting and bool(workers) and not any(self._free_slots(worker) for worker in workers)

    @property
    def _ring_is_ours(self) -> bool:
        """Nobody reads a slot of it for a dead coordinator."""
        return self._unheard is not None and not self._unheard

    def _commit(self) -> Commit:
        end = (self.step + 1) * self.rules.batches_per_step
        losses = tuple(self._step.losses[batch] for batch in self._step.batches)
        action = Commit(self.step, losses, self.train.cursor(end))
        self.step += 1
        self._step = self._open_step()
        self._deaths.clear()
        self.train.free(end)
        return action

    def _orders(self) -> Iterator[Action]:
        """Orders that differ from what the addressee was told last."""
        for worker in self._workers.values():
            orders = WorkerOrders(self.step, tuple(worker.assignments))
            if orders != worker.sent:
                worker.sent = orders
                yield OrderWorker(worker.peer, orders)
        if self._feeder is not None and self._ring_is_ours:
            feeder_orders = FeederOrders(
                self.train.orders(), None if self.validation is None else self.validation.orders()
            )
            if feeder_orders != self._feeder_sent:
                self._feeder_sent = feeder_orders
                yield OrderFeeder(self._feeder, feeder_orders)
