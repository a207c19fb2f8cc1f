"""The workers that are alive: their assignments, and which of their gradient slots (memory for the gradients of one
group of batches) are in use. Pure.

After the coordinator's death workers may still compute for it. A worker sends nothing to the successor while it does
(`JobQueue.may_speak`). The successor lets the feeder fill the ring again when every worker that was alive at its start
has sent something or is dead (I4).
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field

from pool.coordinator.scheduler.actions import OrderWorker
from pool.protocol.identity import Peer
from pool.protocol.messages import Assignment, WorkerOrders

IN_FLIGHT = 2  # assignments that a worker has at most, so that copying the next batch overlaps computing


@dataclass
class Worker:
    """A living worker and its assignments, in the order in which they were given."""

    peer: Peer
    assignments: list[Assignment] = field(default_factory=list)
    number: int = 0  # of the newest orders that were sent to it
    version: int = -1  # of the weights, in the newest orders
    to_tell: bool = True  # its orders have to be sent: more has changed than that finished batches are gone
    taken_back: dict[int, int] = field(default_factory=dict)  # revoked: first batch -> number of orders without it


class WorkerPool:
    """Keeps the assignments and gradient slots of all living workers, and chooses the worker for the next
    assignment."""

    def __init__(self, gradient_slots: int, *, successor: bool) -> None:
        """Makes a pool without workers. `gradient_slots`: how many each worker has. `successor`: True if an earlier
        coordinator has died, whose workers may still be alive."""
        self._gradient_slots = gradient_slots
        self._workers: dict[int, Worker] = {}
        self._held: set[tuple[int, int]] = set()  # (worker, slot) whose gradients are still needed
        self._unheard: set[Peer] | None = None if successor else set()  # may serve a dead coordinator; None: unknown

    def roster(self, alive: Set[Peer]) -> None:
        """Notes which workers are alive. The first list that the successor of a dead coordinator gets names those that
        may still compute for the dead one."""
        self._unheard = set(alive) if self._unheard is None else self._unheard & alive

    @property
    def all_heard(self) -> bool:
        """True if no worker computes for a dead coordinator any more."""
        return self._unheard is not None and not self._unheard

    def join(self, peer: Peer) -> None:
        """Adds a worker that has sent its first message."""
        assert peer.index not in self._workers, f"I4: {peer} joins before its predecessor was lost"
        self._workers[peer.index] = Worker(peer)
        if self._unheard is not None:
            self._unheard.discard(peer)

    def leave(self, worker: Worker) -> None:
        """Removes a dead worker and its assignments. Gradients in its slots that are still needed stay valid."""
        del self._workers[worker.peer.index]

    def find(self, peer: Peer) -> Worker | None:
        """Returns the record of a worker; None if the worker has not joined or is lost."""
        worker = self._workers.get(peer.index)
        return worker if worker is not None and worker.peer == peer else None

    def is_alive(self, index: int) -> bool:
        """True if a living worker has this index, which could be given its gradient slots."""
        return index in self._workers

    def assign(self, worker: Worker, assignment: Assignment) -> None:
        """Gives a worker an assignment, and reserves its gradient slot if it has one."""
        worker.assignments.append(assignment)
        worker.to_tell = True
        if assignment.gradient_slot >= 0:
            self._held.add((worker.peer.index, assignment.gradient_slot))

    def take_back(self, index: int, assignment: Assignment) -> None:
        """Revokes an assignment that the worker has not begun to compute, and frees its gradient slot. The worker may
        be preparing it, and so may still read its batches."""
        worker = self._workers[index]
        worker.assignments.remove(assignment)
        worker.taken_back[assignment.batch] = worker.number + 1
        worker.to_tell = True
        self.release(index, assignment.gradient_slot)

    def settled(self, worker: Worker, number: int) -> None:
        """Notes that a worker works on nothing that its orders number `number` have revoked. Revoked batches up to
        these orders are not read any more."""
        worker.taken_back = {batch: since for batch, since in worker.taken_back.items() if since > number}

    def first_read(self, end: int) -> int:
        """Returns the first revoked batch that a worker may still read; `end` if that is smaller."""
        return min([end, *(batch for worker in self._workers.values() for batch in worker.taken_back)])

    def release(self, index: int, slot: int) -> None:
        """Frees a worker's gradient slot, whose content is not needed any more."""
        self._held.discard((index, slot))

    def least_busy(self, *, with_slot: bool = False) -> Worker | None:
        """Returns the worker with the fewest assignments among those that can take one more; None if there is none.
        With `with_slot`, only workers with a free gradient slot count."""
        return min(self._able(with_slot), key=lambda worker: (len(worker.assignments), worker.peer.index), default=None)

    def least_busy_for_next_step(self, step: int, groups: int) -> Worker | None:
        """Returns a worker for one of the `groups` of batches of the next step, which are assigned early; None if none
        can take one.

        No worker gets more than an equal share of the groups, or else the first idle worker would get the whole next
        step.
        """
        share = -(-groups // max(1, len(self._workers)))

        def has(worker: Worker) -> int:
            return sum(assignment.step == step for assignment in worker.assignments)

        able = [worker for worker in self._able(True) if has(worker) < share]
        return min(able, key=lambda worker: (has(worker), len(worker.assignments), worker.peer.index), default=None)

    def _able(self, with_slot: bool) -> list[Worker]:
        """Returns the workers that can take one more assignment."""
        return [
            worker
            for worker in self._workers.values()
            if len(worker.assignments) < IN_FLIGHT and (not with_slot or self.free_slots(worker))
        ]

    def free_slots(self, worker: Worker) -> list[int]:
        """Returns the indices of a worker's gradient slots that are not in use."""
        return [slot for slot in range(self._gradient_slots) if (worker.peer.index, slot) not in self._held]

    @property
    def out_of_slots(self) -> bool:
        """True if there are workers, but none has a free gradient slot."""
        workers = self._workers.values()
        return bool(workers) and not any(self.free_slots(worker) for worker in workers)

    def orders(self, version: int, frozen: tuple[int, ...] = ()) -> Iterator[OrderWorker]:
        """Yields orders for each worker whose orders have changed. `frozen`: members that are not trained any more;
        workers are told of new ones with the next orders that are due."""
        for worker in self._workers.values():
            if worker.to_tell or worker.version != version:
                worker.to_tell = False
                worker.version = version
                worker.number += 1
                assignments, taken_back = tuple(worker.assignments), bool(worker.taken_back)
                orders = WorkerOrders(version, assignments, worker.number, taken_back, frozen)
                yield OrderWorker(worker.peer, orders)

    def resend_orders(self) -> None:
        """Lets `orders` yield all orders again, because those that were sent may be lost (I5)."""
        for worker in self._workers.values():
            worker.to_tell = True
