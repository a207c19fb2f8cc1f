"""Turns messages, lists of living processes and signals in shared memory into events for the scheduler. Pure: the
caller reads sockets and signals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from pool.coordinator.scheduler.actions import Action
from pool.coordinator.scheduler.scheduler import StepScheduler
from pool.protocol.identity import FEEDER, WORKER, Peer
from pool.protocol.messages import FeederReport, Message, Roster, Times, WorkerReport
from pool.shm.signals import FinishedBatches


class WorkersMemory(Protocol):
    """What workers leave in shared memory, which outlives them."""

    def finished(self, worker: int) -> FinishedBatches:
        """Returns the assignment that a worker has finished last."""

    def in_work(self, worker: int) -> tuple[int, int]:
        """Returns the attempt (number of an assignment) that the worker computes or died of, 0 if there is none, and
        the batch of it that is in work."""

    def raised(self, worker: int, attempt: int) -> str:
        """Returns the exception that ended the worker in this attempt; empty if none did."""


class Inbox:
    """Receives what the coordinator is told by workers, feeder and supervisor, and returns the scheduler's actions."""

    def __init__(self, scheduler: StepScheduler, memory: WorkersMemory, spent: Callable[[int, Times], object]) -> None:
        """Makes an inbox that passes events on to `scheduler`. `memory`: what workers leave in shared memory. `spent`:
        called with a worker's index and the times that it reports."""
        self._scheduler = scheduler
        self._memory = memory
        self._spent = spent
        self.alive: frozenset[Peer] = frozenset()  # feeder and workers; empty before the first roster
        self.joined: set[Peer] = set()  # living processes that have sent a message
        self._readers: dict[tuple[str, type], Callable[[Peer, Any], list[Action]]] = {
            (WORKER, WorkerReport): self._worker_report,
            (FEEDER, FeederReport): scheduler.feeder_report,
        }

    def roster(self, roster: Roster) -> list[Action]:
        """Takes the supervisor's list of living processes, and returns the scheduler's actions. A worker or feeder that
        has sent messages and is not in the list is reported to the scheduler as lost. If the supervisor wants the run
        to end, the scheduler begins no new step."""
        alive = frozenset(peer for peer in roster.pids() if peer.role in (FEEDER, WORKER))
        actions: list[Action] = []
        for peer in sorted(self.joined - alive):
            self.joined.remove(peer)
            actions += self._lost(peer)
        self.alive = alive
        actions += self._scheduler.roster({peer for peer in alive if peer.role == WORKER})
        return actions + (self._scheduler.drain() if roster.drain else [])

    def message(self, sender: Peer, message: Message) -> list[Action]:
        """Takes a message of the feeder or of a worker, and returns the scheduler's actions. The first message of a
        process tells the scheduler that it has started."""
        actions: list[Action] = []
        if sender not in self.joined:
            self.joined.add(sender)
            joined = self._scheduler.feeder_joined if sender.role == FEEDER else self._scheduler.worker_joined
            actions += joined(sender)
        read = self._readers.get((sender.role, type(message)))
        return actions if read is None else actions + read(sender, message)

    def bell(self) -> list[Action]:
        """Reads from shared memory which assignment each worker has finished last, and returns the scheduler's actions.
        Called after a worker has set the signal."""
        news = {peer: self._memory.finished(peer.index) for peer in sorted(self.joined) if peer.role == WORKER}
        for peer, finished in news.items():
            self._spent(peer.index, finished.times)
        return self._scheduler.finished(news)

    def _lost(self, peer: Peer) -> list[Action]:
        """Reports a dead process to the scheduler, for a worker with what it left in shared memory: the batch in work,
        and the exception."""
        if peer.role == FEEDER:
            return self._scheduler.feeder_lost(peer)
        attempt, batch = self._memory.in_work(peer.index)
        return self._scheduler.worker_lost(peer, attempt, batch, self._memory.raised(peer.index, attempt))

    def _worker_report(self, peer: Peer, report: WorkerReport) -> list[Action]:
        self._spent(peer.index, report.times)
        return self._scheduler.worker_report(peer, report)
