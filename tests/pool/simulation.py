"""A whole run without processes: the pure books of coordinator, feeder and workers under one seeded scheduler.

Messages are delayed, repeated, lost and reordered between links; workers and the feeder die and come back.
Shared memory is a dictionary that says which batch was written where, so that a fold or a batch that reads
something else is seen at once.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from loader.stream import Cursor, Filled
from pool.coordinator.actions import (
    Action,
    BadBatch,
    Commit,
    End,
    Fold,
    OrderFeeder,
    OrderWorker,
    TakeBuffers,
    Update,
    Validated,
)
from pool.coordinator.books import Books, Rules
from pool.feeder.filling import Filling
from pool.protocol.identity import FEEDER, WORKER, Peer
from pool.protocol.messages import (
    CursorState,
    FeederOrders,
    FeederReport,
    Purpose,
    StreamReport,
    WorkerOrders,
    WorkerReport,
)
from pool.worker.desk import Desk, Job

START = CursorState(0, 0, 0, 0)


@dataclass(frozen=True)
class Setup:
    rules: Rules
    workers: int
    ring_slots: int
    validation_slots: int = 2
    deaths: int = 0  # how many processes are killed in the run
    lossy: bool = True
    unsound: frozenset[int] = frozenset()  # batches whose gradient is not finite


@dataclass
class SimWorker:
    peer: Peer
    desk: Desk = field(default_factory=Desk)
    job: Job | None = None
    todo: list[int] = field(default_factory=list)  # buckets of the job still to write


@dataclass
class SimFeeder:
    peer: Peer
    train: Filling
    validation: Filling
    pending: dict[Purpose, list[int]] = field(default_factory=lambda: {"train": [], "validate": []})
    next_batch: dict[Purpose, int] = field(default_factory=lambda: {"train": 0, "validate": 0})


class Simulation:
    """`run` raises AssertionError at the first thing that must not be."""

    def __init__(self, setup: Setup, seed: int) -> None:
        self.setup = setup
        self.random = random.Random(seed)
        self.books = Books(setup.rules, 0, START, generation=1 << 32)
        self.workers: dict[int, SimWorker] = {}
        self.feeder: SimFeeder | None = None
        self.incarnations: dict[tuple[str, int], int] = {}
        self.deaths_left = setup.deaths
        self.ring: dict[tuple[Purpose, int], int] = {}  # what lies in which ring slot
        self.gradients: dict[tuple[int, int, int], tuple[int, int]] = {}  # (worker, slot, bucket) -> (batch, version)
        self.wires: dict[Peer, list[object]] = {}  # to each process, in order
        self.inbox: list[tuple[Peer, object]] = []  # to the coordinator
        self.version = 0
        self.folded: dict[tuple[int, int], list[int]] = {}  # (step, bucket) -> batches
        self.left_out: set[int] = set()
        self.updated: set[tuple[int, int]] = set()  # (step, bucket)
        self.commits: list[Commit] = []
        self.validations: list[Validated] = []
        self.ended = False

    def run(self, max_events: int = 50_000) -> None:
        for index in range(self.setup.workers):
            self._start_worker(index)
        self._start_feeder()
        for _ in range(max_events):
            if self.ended:
                return
            self._event()
        raise AssertionError(f"not ended after {max_events} events, at step {self.books.step}")

    # --- the scheduler ---

    def _event(self) -> None:
        choices = [self._deliver_to_coordinator, self._deliver_order, self._work, self._fill, self._report]
        weights = [8, 8, 8, 8, 2]
        if self.setup.lossy:
            choices.append(self._say_again)
            weights.append(1)
        if self.deaths_left and self.random.random() < 0.01:
            self.deaths_left -= 1
            self._kill()
            return
        self.random.choices(choices, weights)[0]()

    def _deliver_to_coordinator(self) -> None:
        if not self.inbox:
            return
        senders = sorted({peer for peer, _ in self.inbox})
        sender = self.random.choice(senders)
        position = next(i for i, (peer, _) in enumerate(self.inbox) if peer == sender)
        message = self.inbox[position][1]
        if not (self.setup.lossy and self.random.random() < 0.1):  # else it comes again
            del self.inbox[position]
        if self.setup.lossy and self.random.random() < 0.1:
            return  # lost
        if isinstance(message, WorkerReport):
            self._act(self.books.worker_report(sender, message))
        elif isinstance(message, FeederReport):
            self._act(self.books.feeder_report(sender, message))

    def _deliver_order(self) -> None:
        ready = sorted(peer for peer, wire in self.wires.items() if wire)
        if not ready:
            return
        peer = self.random.choice(ready)
        message = self.wires[peer].pop(0)
        if self.setup.lossy and self.random.random() < 0.1:
            return
        if isinstance(message, WorkerOrders):
            worker = self.workers[peer.index]
            worker.desk.orders(message)
        elif isinstance(message, FeederOrders) and self.feeder is not None:
            self._feeder_orders(message)

    def _work(self) -> None:
        worker = self.random.choice(sorted(self.workers.values(), key=lambda w: w.peer)) if self.workers else None
        if worker is None:
            return
        rules = self.setup.rules
        if worker.job is None:
            worker.job = worker.desk.next()
            if worker.job is None:
                return
            assignment = worker.job.assignment
            slots = self.setup.ring_slots if assignment.purpose == "train" else self.setup.validation_slots
            assert self.ring.get((assignment.purpose, assignment.batch % slots)) == assignment.batch, "I3: ring slot"
            assert assignment.step == self.version, f"I3: batch of step {assignment.step} with version {self.version}"
            worker.todo = list(range(rules.num_buckets)) if assignment.purpose == "train" else []
            self.random.shuffle(worker.todo)
        elif worker.todo:
            bucket = worker.todo.pop()
            assignment = worker.job.assignment
            self.gradients[worker.peer.index, assignment.gradient_slot, bucket] = (assignment.batch, assignment.step)
            worker.job.buckets.append(bucket)
            self._send_report(worker)
        else:
            batch = worker.job.assignment.batch
            unsound = worker.job.assignment.purpose == "train" and batch in self.setup.unsound
            worker.desk.finish(worker.job, float(batch), (), "the loss" if unsound else "")
            worker.job = None
            self._send_report(worker)

    def _fill(self) -> None:
        feeder = self.feeder
        if feeder is None:
            return
        purposes: list[Purpose] = [purpose for purpose in ("train", "validate") if feeder.pending[purpose]]
        if not purposes:
            return
        purpose = self.random.choice(purposes)
        slot = feeder.pending[purpose].pop(0)
        batch = feeder.next_batch[purpose]
        feeder.next_batch[purpose] += 1
        self._check_overwrite(purpose, slot, batch)
        self.ring[purpose, slot] = batch
        filling = feeder.train if purpose == "train" else feeder.validation
        filling.filled(Filled(slot, batch, Cursor(batch), Cursor(batch + 1)))
        self._feeder_report()

    def _report(self) -> None:
        """The heartbeat of everybody; rarer than messages are delivered, or they would pile up."""
        if self.inbox:
            return
        for worker in self.workers.values():
            self._send_report(worker)
        self._feeder_report()

    def _say_again(self) -> None:
        if not any(self.wires.values()):
            self._act(self.books.say_again())

    def _kill(self) -> None:
        victims: list[Peer] = [worker.peer for worker in self.workers.values()]
        if self.feeder is not None:
            victims.append(self.feeder.peer)
        if not victims:
            return
        victim = self.random.choice(sorted(victims))
        self.wires.pop(victim)
        self.inbox = [(peer, message) for peer, message in self.inbox if peer != victim or self.random.random() < 0.5]
        if victim.role == WORKER:
            job = self.workers.pop(victim.index).job
            self._act(self.books.worker_lost(victim, 0 if job is None else job.assignment.attempt))
            self.inbox = [(peer, message) for peer, message in self.inbox if peer != victim]
            self._start_worker(victim.index)
        else:
            self.feeder = None
            self._act(self.books.feeder_lost(victim))
            self.inbox = [(peer, message) for peer, message in self.inbox if peer != victim]
            self._start_feeder()

    # --- processes ---

    def _new_peer(self, role: str, index: int) -> Peer:
        number = self.incarnations.get((role, index), 0) + 1
        self.incarnations[role, index] = number
        peer = Peer(role, index, number)
        self.wires[peer] = []
        return peer

    def _start_worker(self, index: int) -> None:
        self.workers[index] = SimWorker(self._new_peer(WORKER, index))
        self._act(self.books.worker_joined(self.workers[index].peer))

    def _start_feeder(self) -> None:
        peer = self._new_peer(FEEDER, 0)
        self.feeder = SimFeeder(peer, Filling(self.setup.ring_slots), Filling(self.setup.validation_slots))
        self._act(self.books.feeder_joined(peer))

    def _feeder_orders(self, message: FeederOrders) -> None:
        assert self.feeder is not None
        pairs: list[tuple[Purpose, Filling, object]] = [("train", self.feeder.train, message.train)]
        if message.validation is not None:
            pairs.append(("validate", self.feeder.validation, message.validation))
        for purpose, filling, orders in pairs:
            fill = filling.orders(orders)  # type: ignore[arg-type]
            if fill.seek is not None:
                self.feeder.pending[purpose] = []
                self.feeder.next_batch[purpose] = fill.seek.batch
            self.feeder.pending[purpose] += fill.slots

    def _feeder_report(self) -> None:
        if self.feeder is not None:
            validation: StreamReport | None = self.feeder.validation.report()
            self.inbox.append((self.feeder.peer, FeederReport(self.feeder.train.report(), validation)))

    def _send_report(self, worker: SimWorker) -> None:
        self.inbox.append((worker.peer, WorkerReport(worker.desk.reports(), 0.0, 0.0, 0.0)))

    def _check_overwrite(self, purpose: Purpose, slot: int, batch: int) -> None:
        """The feeder may not write a slot whose batch is still needed."""
        old = self.ring.get((purpose, slot))
        if purpose == "train" and old is not None and old != batch:
            needed = self.books.step * self.setup.rules.batches_per_step
            assert old < needed, f"I3: batch {old} of step {self.books.step} overwritten by {batch}"

    # --- the coordinator's hands ---

    def _act(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Fold):
                self._fold(action)
            elif isinstance(action, Update):
                batches = self._batches(action.step)
                assert action.batches == len(batches)
                assert not batches or self.folded[action.step, action.bucket] == batches, "I2"
                assert not self.setup.unsound.intersection(batches), "not finite"
                assert (action.step, action.bucket) not in self.updated, "updated twice"
                self.updated.add((action.step, action.bucket))
            elif isinstance(action, BadBatch):
                assert not any(step == action.step for step, _ in self.updated)
                self.left_out.add(action.batch)
            elif isinstance(action, TakeBuffers):
                assert action.source.batch == action.step * self.setup.rules.batches_per_step
            elif isinstance(action, Commit):
                self._commit(action)
            elif isinstance(action, Validated):
                assert action.version == self.version
                expected = sum(range(self.setup.rules.validation_batches)) / self.setup.rules.validation_batches
                assert action.loss == expected
                self.validations.append(action)
            elif isinstance(action, OrderWorker | OrderFeeder):
                self.wires[action.peer].append(action.orders)
            elif isinstance(action, End):
                assert not self.ended
                self.ended = True

    def _batches(self, step: int) -> list[int]:
        """That make the step."""
        count = self.setup.rules.batches_per_step
        return [batch for batch in range(step * count, (step + 1) * count) if batch not in self.left_out]

    def _fold(self, action: Fold) -> None:
        assert action.step == self.version
        if action.first:  # for the first time, or anew without a batch that was left out
            self.folded[action.step, action.bucket] = []
        done = self.folded[action.step, action.bucket]
        batches = self._batches(action.step)
        for source in action.sources:
            written = self.gradients.get((source.worker, source.slot, action.bucket))
            assert written == (source.batch, action.step), f"I4: {source} holds {written}"
            assert source.batch == batches[len(done)], "I2: order"
            done.append(source.batch)
        assert action.last == (done == batches)
        assert action.batches == len(batches)

    def _commit(self, action: Commit) -> None:
        rules = self.setup.rules
        assert action.step == self.version
        for bucket in range(rules.num_buckets):
            assert (action.step, bucket) in self.updated
        assert action.losses == tuple(map(float, self._batches(action.step)))
        assert action.next_cursor.batch == (action.step + 1) * rules.batches_per_step
        self.version += 1
        self.commits.append(action)
