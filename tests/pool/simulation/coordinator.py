"""A simulated coordinator: the real books, and hands that do what they say, one action after the other.

What it alone knows (optimizer state, the sums, the books) dies with it; its successor begins with what was saved.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from pool.coordinator.books import Books
from pool.protocol.admission import Admission
from pool.protocol.identity import FEEDER, WORKER, Peer
from pool.protocol.messages import CursorState, FeederReport, Message, Roster, WorkerReport
from tests.pool.simulation.arithmetic import Version, add, batches_of, stepped
from tests.pool.simulation.process import THE_SUPERVISOR, Process

if TYPE_CHECKING:
    from tests.pool.simulation.world import World


BELL_HEARD = 0.2  # share of its idle moves in which the coordinator looks at what workers have finished


@dataclass(frozen=True)
class Saved:
    """A snapshot or a checkpoint."""

    step: int
    cursor: CursorState
    version: Version


class SimCoordinator(Process):
    def __init__(self, world: World, peer: Peer, ready: int, saved: Saved) -> None:
        super().__init__(world, peer, ready)
        self._from_supervisor = Admission(peer, (THE_SUPERVISOR,))
        self._from_others = Admission(peer)
        self._alive: set[Peer] = set()
        self._joined: set[Peer] = set()
        self._todo: deque[Action] = deque()
        self._at_end = False
        self._optimizer = list(saved.version.optimizer)
        self._sums = [0] * len(self._optimizer)
        self._counts = [0] * len(self._optimizer)  # batches in each sum
        self._divisors = [0] * len(self._optimizer)  # that make its mean
        self._version = saved.step
        if world.history.resumed(saved.step):
            world.seen["steps to do again"] += 1
        self._to_restore: Version | None = saved.version
        self._shortcut = world.memory.coordinator_end(peer.incarnation)
        self.books = Books(
            world.setup.rules,
            saved.step,
            saved.cursor,
            incarnation=peer.incarnation,
            validated=world.history.validated_version,
        )
        self._buffers_taken = False

    def step(self) -> None:
        if self._to_restore is not None:
            self.world.memory.begin_version(self._version, self._to_restore)
            self._shortcut.publish(self._version)
            self._to_restore = None
        elif self._todo:
            self._do(self._todo.popleft())
        elif self._at_end:
            self.world.ended = True
        elif self._again():
            self._todo += self.books.say_again()
        elif (envelope := self.world.network.receive(self.peer.place, from_supervisor=True)) is not None:
            if not self._from_supervisor.refusal(envelope):
                assert isinstance(envelope.message, Roster)
                self._roster(envelope.message)
        elif self._joined and self.world.chance() < BELL_HEARD:
            workers = [peer for peer in self._joined if peer.role == WORKER]
            self._todo += self.books.finished({peer: self._shortcut.finished(peer.index) for peer in workers})
        elif self._alive:
            envelope = self.world.network.receive(self.peer.place, from_supervisor=False)
            if envelope is None:
                return
            if self._from_others.refusal(envelope):
                self.world.seen["message to the coordinator refused"] += 1
            else:
                self._message(envelope.sender, envelope.message)

    # --- events ---

    def _roster(self, roster: Roster) -> None:
        alive = {Peer(e.role, e.index, e.incarnation) for e in roster.alive if e.role in (FEEDER, WORKER)}
        for peer in sorted(self._joined - alive):
            self._joined.remove(peer)
            if peer.role == FEEDER:
                self._todo += self.books.feeder_lost(peer)
            else:
                attempt = self.world.memory.attempts[peer.index]
                raised = self.world.memory.raised[peer.index].of(attempt)
                self._todo += self.books.worker_lost(peer, attempt, raised)
        self._alive = alive
        self._from_others.set_alive(alive)
        self._todo += self.books.roster({peer for peer in alive if peer.role == WORKER})
        if roster.drain:
            self._todo += self.books.drain()

    def _message(self, peer: Peer, message: Message) -> None:
        if peer not in self._joined:
            self._joined.add(peer)
            self._todo += self.books.feeder_joined(peer) if peer.role == FEEDER else self.books.worker_joined(peer)
        if isinstance(message, WorkerReport):
            self._todo += self.books.worker_report(peer, message)
        elif isinstance(message, FeederReport):
            self._todo += self.books.feeder_report(peer, message)

    # --- actions ---

    def _do(self, action: Action) -> None:
        if isinstance(action, Fold):
            self._fold(action)
        elif isinstance(action, Update):
            self._update(action)
        elif isinstance(action, TakeBuffers):
            self._buffers_taken = action.source is not None
            if (source := action.source) is not None:
                taken = self.world.memory.gradient(source.worker, source.slot)
                self.world.memory.buffers[(action.step + 1) % 2] = taken
        elif isinstance(action, Commit):
            self._commit(action)
        elif isinstance(action, BadBatch):
            self.world.memory.check_batch("train", action.batch)  # it is kept for its user
            self.world.history.left_out(self.peer, action)
            self.world.seen["stopped by a bad batch" if action.fatal else "batch left out"] += 1
            self.world.ended |= action.fatal
        elif isinstance(action, Validated):
            self.world.history.validated(action, self.world.memory.weights(self._version))
        elif isinstance(action, OrderWorker | OrderFeeder):
            self.world.network.send(self.peer, action.peer, action.orders)
        elif isinstance(action, End):
            self._at_end = True

    def _fold(self, action: Fold) -> None:
        memory, bucket = self.world.memory, action.bucket
        if not (action.first and action.last):
            self.world.seen["sum in parts"] += 1
        if action.first:
            self._sums[bucket] = self._counts[bucket] = 0
        for source in action.sources:
            memory.check_batch("train", source.batch)  # its touched rows are read
            self._sums[bucket] = add(self._sums[bucket], memory.gradient(source.worker, source.slot, bucket))
            self._counts[bucket] += 1
        self._divisors[bucket] = action.batches

    def _update(self, action: Update) -> None:
        if action.fold is not None:
            self._fold(action.fold)
        memory, bucket, count = self.world.memory, action.bucket, action.batches
        assert action.step == self._version, f"I3: step {action.step} updates version {self._version}"
        total = self._sums[bucket] if count else 0
        if count:
            assert count == self._counts[bucket] == self._divisors[bucket], (
                f"mean of {self._divisors[bucket]}: {action}"
            )
        old = memory.halves[action.step % 2][bucket]
        weight, self._optimizer[bucket] = stepped(old, self._optimizer[bucket], total, count)
        memory.halves[(action.step + 1) % 2][bucket] = weight
        batches = batches_of(self.world.setup, action.step)
        if any(process.holds and process.holds[1] in batches for process in self.world.workers()):
            self.world.seen["stepped while a batch was in work"] += 1

    def _commit(self, action: Commit) -> None:
        memory, history = self.world.memory, self.world.history
        assert action.step == self._version, f"I3: step {action.step} committed on version {self._version}"
        new = (action.step + 1) % 2
        if not self._buffers_taken:
            memory.buffers[new] = memory.buffers[action.step % 2]
        self._buffers_taken = False
        self._version += 1
        version = Version(memory.weights(self._version), tuple(self._optimizer), memory.buffers[new])
        history.committed(action, version)
        self._shortcut.publish(self._version)
        self.world.save(Saved(self._version, action.next_cursor, version))
