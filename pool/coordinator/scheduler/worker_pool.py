"""The workers that are alive: their assignments, and which of their gradient slots (memory for the gradients of one
group of batches) are in use. Pure.

After the coordinator's death workers may still compute for it. A worker sends nothing to the successor while it does
(`JobQueue.can_report`). The successor lets the feeder fill the ring again when every worker that was alive at its start
has sent something or is dead (I4).
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field

from pool.coordinator.scheduler.actions import OrderWorker
from pool.protocol.identity import Peer
from pool.protocol.messages import Assignment, WorkerOrders

MAX_ASSIGNMENTS = 2  # of a worker at a time, so that copying the next batch overlaps computing


@dataclass
class Worker:
    """A living worker and its assignments, in the order in which they were given."""

    peer: Peer
    assignments: list[Assignment] = field(default_factory=list)
    orders_number: int = 0  # of the newest orders that were sent to it
    version: int = -1  # of the weights, in the newest orders
    needs_orders: bool = True  # more has changed since the newest orders than that finished batches are gone
    revoked: dict[int, int] = field(default_factory=dict)  # first batch of an assignment -> number of orders without it

    def num_assigned(self, step: int) -> int:
        """Returns how many groups of batches of a step the worker has to compute."""
        return sum(assignment.step == step for assignment in self.assignments)


class WorkerPool:
    """Keeps the assignments and gradient slots of all living workers, and chooses the worker for the next
    assignment."""

    def __init__(self, gradient_slots: int, *, successor: bool) -> None:
        """Creates a pool without workers. `gradient_slots`: how many each worker has. `successor`: True if an earlier
        coordinator has died, whose workers may still be alive."""
        self._gradient_slots = gradient_slots
        self._workers: dict[int, Worker] = {}
        self._used_slots: set[tuple[int, int]] = set()  # (worker, slot) whose gradients are still needed
        # workers that may still compute for a dead coordinator; None: not known before the first roster
        self._unaccounted: set[Peer] | None = None if successor else set()

    def set_alive(self, alive: Set[Peer]) -> None:
        """Sets which workers are alive. The first call in the successor of a dead coordinator names those that may
        still compute for the dead one."""
        self._unaccounted = set(alive) if self._unaccounted is None else self._unaccounted & alive

    @property
    def all_accounted_for(self) -> bool:
        """True if no worker computes for a dead coordinator any more: all have sent a message since, or are dead."""
        return self._unaccounted is not None and not self._unaccounted

    def add(self, peer: Peer) -> None:
        """Adds a worker that has sent its first message."""
        assert peer.index not in self._workers, f"I4: {peer} joins before its predecessor was lost"
        self._workers[peer.index] = Worker(peer)
        if self._unaccounted is not None:
            self._unaccounted.discard(peer)

    def remove(self, worker: Worker) -> None:
        """Removes a dead worker and its assignments. Gradients in its slots that are still needed stay valid."""
        del self._workers[worker.peer.index]

    def find(self, peer: Peer) -> Worker | None:
        """Returns the record of a worker; None if the worker has not joined or is lost."""
        worker = self._workers.get(peer.index)
        return worker if worker is not None and worker.peer == peer else None

    def is_alive(self, index: int) -> bool:
        """Returns True if a living worker has this index, so that its gradient slots can be assigned."""
        return index in self._workers

    def assign(self, worker: Worker, assignment: Assignment) -> None:
        """Gives a worker an assignment, and reserves the assignment's gradient slot if it has one."""
        worker.assignments.append(assignment)
        worker.needs_orders = True
        if assignment.gradient_slot >= 0:
            self._used_slots.add((worker.peer.index, assignment.gradient_slot))

    def take_back(self, index: int, assignment: Assignment) -> None:
        """Revokes an assignment that the worker has not begun to compute, and frees its gradient slot. The worker may
        be preparing the assignment, and so may still read its batches."""
        worker = self._workers[index]
        worker.assignments.remove(assignment)
        worker.revoked[assignment.batch] = worker.orders_number + 1
        worker.needs_orders = True
        self.release_slot(index, assignment.gradient_slot)

    def confirm_revoked(self, worker: Worker, orders_number: int) -> None:
        """Records that a worker works on nothing that its orders number `orders_number` have revoked. Batches that were
        revoked up to these orders are not read any more."""
        worker.revoked = {batch: number for batch, number in worker.revoked.items() if number > orders_number}

    def first_batch_in_use(self, end: int) -> int:
        """Returns the first revoked batch that a worker may still read; `end` if that is smaller."""
        return min([end, *(batch for worker in self._workers.values() for batch in worker.revoked)])

    def release_slot(self, index: int, slot: int) -> None:
        """Frees a worker's gradient slot, whose content is not needed any more."""
        self._used_slots.discard((index, slot))

    def least_busy(self, *, with_slot: bool = False) -> Worker | None:
        """Returns the worker with the fewest assignments among those that can take one more; None if there is none.
        With `with_slot`, only workers with a free gradient slot count."""
        available = self._available(with_slot=with_slot)
        return min(available, key=lambda worker: (len(worker.assignments), worker.peer.index), default=None)

    def least_busy_for_next_step(self, step: int, num_groups: int) -> Worker | None:
        """Returns a worker for one of the `num_groups` groups of batches of the next step, which are assigned early;
        None if no worker can take one.

        No worker gets more than an equal share of the groups, or else the first idle worker would get the whole next
        step.
        """
        max_groups = -(-num_groups // max(1, len(self._workers)))
        available = [worker for worker in self._available(with_slot=True) if worker.num_assigned(step) < max_groups]
        return min(
            available,
            key=lambda worker: (worker.num_assigned(step), len(worker.assignments), worker.peer.index),
            default=None,
        )

    def _available(self, *, with_slot: bool) -> list[Worker]:
        """Returns the workers that can take one more assignment."""
        return [
            worker
            for worker in self._workers.values()
            if len(worker.assignments) < MAX_ASSIGNMENTS and (not with_slot or self.free_slots(worker))
        ]

    def free_slots(self, worker: Worker) -> list[int]:
        """Returns the indices of a worker's gradient slots that are not in use."""
        return [slot for slot in range(self._gradient_slots) if (worker.peer.index, slot) not in self._used_slots]

    @property
    def is_out_of_slots(self) -> bool:
        """True if there are workers, but none has a free gradient slot."""
        workers = self._workers.values()
        return bool(workers) and not any(self.free_slots(worker) for worker in workers)

    def pop_changed_orders(self, version: int, frozen: tuple[int, ...] = ()) -> Iterator[OrderWorker]:
        """Yields orders for each worker whose orders have changed since the last call. `frozen`: members that are not
        trained any more; workers learn of new ones with the next orders that are due."""
        for worker in self._workers.values():
            if worker.needs_orders or worker.version != version:
                worker.needs_orders = False
                worker.version = version
                worker.orders_number += 1
                assignments, needs_report = tuple(worker.assignments), bool(worker.revoked)
                orders = WorkerOrders(version, assignments, worker.orders_number, needs_report, frozen)
                yield OrderWorker(worker.peer, orders)

    def resend_orders(self) -> None:
        """Lets `pop_changed_orders` yield the orders of all workers once more, because those that were sent may be lost
        (I5)."""
        for worker in self._workers.values():
            worker.needs_orders = True
