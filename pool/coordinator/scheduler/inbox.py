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
    """Receives what workers, feeder and supervisor send the coordinator, and returns the scheduler's actions."""

    def __init__(
        self, scheduler: StepScheduler, memory: WorkersMemory, on_times: Callable[[int, Times], object]
    ) -> None:
        """Creates an inbox that passes events on to `scheduler`. `memory`: what workers leave in shared memory.
        `on_times`: called with a worker's index and the times that the worker reports."""
        self._scheduler = scheduler
        self._memory = memory
        self._on_times = on_times
        self.alive: frozenset[Peer] = frozenset()  # feeder and workers; empty before the first roster
        self.joined: set[Peer] = set()  # living processes that have sent a message
        self._handlers: dict[tuple[str, type], Callable[[Peer, Any], list[Action]]] = {
            (WORKER, WorkerReport): self._handle_worker_report,
            (FEEDER, FeederReport): scheduler.on_feeder_report,
        }

    def handle_roster(self, roster: Roster) -> list[Action]:
        """Handles the supervisor's list of living processes, and returns the scheduler's actions.

        A worker or feeder that has sent messages and is not in the list is reported to the scheduler as lost. If the
        supervisor wants the run to end, the scheduler begins no new step.
        """
        alive = frozenset(peer for peer in roster.pids() if peer.role in (FEEDER, WORKER))
        actions: list[Action] = []
        for peer in sorted(self.joined - alive):
            self.joined.remove(peer)
            actions += self._handle_death(peer)
        self.alive = alive
        actions += self._scheduler.on_roster({peer for peer in alive if peer.role == WORKER})
        if roster.drain:
            actions += self._scheduler.drain()
        return actions

    def handle_message(self, sender: Peer, message: Message) -> list[Action]:
        """Handles a message of the feeder or of a worker, and returns the scheduler's actions. With the first message
        of a process, the scheduler learns that the process has started."""
        actions: list[Action] = []
        if sender not in self.joined:
            self.joined.add(sender)
            actions += self._handle_join(sender)
        handler = self._handlers.get((sender.role, type(message)))
        if handler is not None:
            actions += handler(sender, message)
        return actions

    def handle_signal(self) -> list[Action]:
        """Reads from shared memory which assignment each worker has finished last, and returns the scheduler's actions.
        Called after a worker has set the signal."""
        workers = sorted(peer for peer in self.joined if peer.role == WORKER)
        finished = {peer: self._memory.finished(peer.index) for peer in workers}
        for peer, last in finished.items():
            self._on_times(peer.index, last.times)
        return self._scheduler.on_finished(finished)

    def _handle_join(self, peer: Peer) -> list[Action]:
        """Reports a process that has started to the scheduler."""
        if peer.role == FEEDER:
            return self._scheduler.on_feeder_joined(peer)
        return self._scheduler.on_worker_joined(peer)

    def _handle_death(self, peer: Peer) -> list[Action]:
        """Reports a dead process to the scheduler, for a worker with what it left in shared memory: the batch in work,
        and the exception."""
        if peer.role == FEEDER:
            return self._scheduler.on_feeder_lost(peer)
        attempt, batch = self._memory.in_work(peer.index)
        return self._scheduler.on_worker_lost(peer, attempt, batch, self._memory.raised(peer.index, attempt))

    def _handle_worker_report(self, peer: Peer, report: WorkerReport) -> list[Action]:
        self._on_times(peer.index, report.times)
        return self._scheduler.on_worker_report(peer, report)
