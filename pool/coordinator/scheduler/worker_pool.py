"""The workers that are alive: their assignments, and which of their gradient slots are still needed. Pure.

After the coordinator's death workers may still compute for it. A worker sends nothing to the successor while it does
(`JobQueue.may_speak`). The successor has the ring filled again when every worker that was alive at its start has sent
something or is dead (I4).
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field

from pool.coordinator.scheduler.actions import OrderWorker
from pool.protocol.identity import Peer
from pool.protocol.messages import Assignment, WorkerOrders

IN_FLIGHT = 2  # assignments of a worker at a time, so that copying the next batch overlaps computing


@dataclass
class Worker:
    """A living worker: its assignments in the order given."""

    peer: Peer
    assignments: list[Assignment] = field(default_factory=list)
    number: int = 0  # of the orders sent last
    version: int = -1  # that they named
    to_tell: bool = True  # its orders have changed beyond dropping finished batches
    taken_back: dict[int, int] = field(default_factory=dict)  # first batch -> number of the orders without it


class WorkerPool:
    def __init__(self, gradient_slots: int, *, successor: bool) -> None:
        """`gradient_slots`: of each worker; `successor`: a coordinator has died, and its workers may still be alive."""
        self._gradient_slots = gradient_slots
        self._workers: dict[int, Worker] = {}
        self._held: set[tuple[int, int]] = set()  # (worker, slot) whose gradients are not folded yet
        self._unheard: set[Peer] | None = None if successor else set()  # may hold old jobs; None: not known yet

    def roster(self, alive: Set[Peer]) -> None:
        """Notes which workers are alive. Those of a successor's first roster may still compute for the dead one."""
        self._unheard = set(alive) if self._unheard is None else self._unheard & alive

    @property
    def all_heard(self) -> bool:
        """No worker computes for a dead coordinator any more."""
        return self._unheard is not None and not self._unheard

    def join(self, peer: Peer) -> None:
        assert peer.index not in self._workers, f"I4: {peer} joins before its predecessor was lost"
        self._workers[peer.index] = Worker(peer)
        if self._unheard is not None:
            self._unheard.discard(peer)

    def leave(self, worker: Worker) -> None:
        del self._workers[worker.peer.index]

    def find(self, peer: Peer) -> Worker | None:
        """None for one that has not joined or is lost."""
        worker = self._workers.get(peer.index)
        return worker if worker is not None and worker.peer == peer else None

    def is_alive(self, index: int) -> bool:
        """Somebody can use this worker's gradient slots."""
        return index in self._workers

    def assign(self, worker: Worker, assignment: Assignment) -> None:
        worker.assignments.append(assignment)
        worker.to_tell = True
        if assignment.gradient_slot >= 0:
            self._held.add((worker.peer.index, assignment.gradient_slot))

    def take_back(self, index: int, assignment: Assignment) -> None:
        """One that was not begun; it may be in preparation."""
        worker = self._workers[index]
        worker.assignments.remove(assignment)
        worker.taken_back[assignment.batch] = worker.number + 1
        worker.to_tell = True
        self.release(index, assignment.gradient_slot)

    def settled(self, worker: Worker, number: int) -> None:
        """The worker has nothing in work that its orders of that number do not have."""
        worker.taken_back = {batch: since for batch, since in worker.taken_back.items() if since > number}

    def first_read(self, end: int) -> int:
        """The first revoked batch that a worker may still read; `end` if that is earlier."""
        return min([end, *(batch for worker in self._workers.values() for batch in worker.taken_back)])

    def release(self, index: int, slot: int) -> None:
        """The content of the gradient slot is not needed any more."""
        self._held.discard((index, slot))

    def least_busy(self, *, with_slot: bool = False) -> Worker | None:
        """The worker with the fewest assignments that can take one more; `with_slot`: and has a gradient slot for
        it."""
        return min(self._able(with_slot), key=lambda worker: (len(worker.assignments), worker.peer.index), default=None)

    def least_busy_ahead(self, step: int, groups: int) -> Worker | None:
        """A worker that can take one of the `groups` of the next step: no more than an equal share each.

        Otherwise the first idle worker would get the whole next step.
        """
        share = -(-groups // max(1, len(self._workers)))

        def has(worker: Worker) -> int:
            return sum(assignment.step == step for assignment in worker.assignments)

        able = [worker for worker in self._able(True) if has(worker) < share]
        return min(able, key=lambda worker: (has(worker), len(worker.assignments), worker.peer.index), default=None)

    def _able(self, with_slot: bool) -> list[Worker]:
        return [
            worker
            for worker in self._workers.values()
            if len(worker.assignments) < IN_FLIGHT and (not with_slot or self.free_slots(worker))
        ]

    def free_slots(self, worker: Worker) -> list[int]:
        return [slot for slot in range(self._gradient_slots) if (worker.peer.index, slot) not in self._held]

    @property
    def out_of_slots(self) -> bool:
        """There are workers, but no gradient slot."""
        workers = self._workers.values()
        return bool(workers) and not any(self.free_slots(worker) for worker in workers)

    def orders(self, version: int, frozen: tuple[int, ...] = ()) -> Iterator[OrderWorker]:
        """For each worker whose orders have changed. `frozen`: members; new ones are told with the next orders."""
        for worker in self._workers.values():
            if worker.to_tell or worker.version != version:
                worker.to_tell = False
                worker.version = version
                worker.number += 1
                assignments, taken_back = tuple(worker.assignments), bool(worker.taken_back)
                orders = WorkerOrders(version, assignments, worker.number, taken_back, frozen)
                yield OrderWorker(worker.peer, orders)

    def say_again(self) -> None:
        """Sends all orders again: those that were sent may be lost (I5)."""
        for worker in self._workers.values():
            worker.to_tell = True
