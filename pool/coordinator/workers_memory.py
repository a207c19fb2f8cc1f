"""The coordinator's view of its workers' memory, for the inbox and the exchange."""

from __future__ import annotations

from functools import partial

from loader.batch.schema import SparseBatch
from pool.buckets.parts import Part, parts
from pool.devices import parse_device
from pool.exchange.addend import Touched
from pool.exchange.contribution import Contribution
from pool.exchange.host.coordinator import HostCoordinator
from pool.process.launch import Launch
from pool.shm.memory import Memory
from pool.shm.shortcut import CoordinatorEnd, Finished


class WorkersMemory:
    """Implements `books.inbox.WorkersMemory`."""

    def __init__(self, memory: Memory, shortcut: CoordinatorEnd) -> None:
        self._memory = memory
        self._shortcut = shortcut

    def finished(self, worker: int) -> Finished:
        return self._shortcut.finished(worker)

    def in_work(self, worker: int) -> tuple[int, int]:
        attempt, batch = self._memory.in_work(worker).tolist()
        return attempt, batch

    def raised(self, worker: int, attempt: int) -> str:
        return self._memory.raised(worker).of(attempt)


def exchanges_of(launch: Launch, memory: Memory, shortcut: CoordinatorEnd) -> list[HostCoordinator]:
    """The coordinator's end of the exchange, for each member: its part of all memory."""
    planned, module = launch.planned, launch.config.testing.device_module
    compact = [worker for worker, spec in enumerate(planned.devices) if parse_device(spec, module).is_accelerator]
    gradient_slots = {
        (worker, slot): place
        for worker in range(len(planned.devices))
        for slot, place in enumerate(memory.gradient_slots(worker))
    }

    lists = launch.touched_lists()

    def touched_rows(member: int, contribution: Contribution, field: str) -> Touched:
        """A group of one batch touches the rows that the batch lists, in its ring slot."""
        if lists.nbytes:
            slot = gradient_slots[contribution.worker, contribution.slot]
            return lists.read(slot[planned.plan.nbytes :], member, field)
        (batch,) = contribution.batches
        return SparseBatch.view(planned.schema, memory.batch_slot("train", batch)).sparse[field].touched

    average = memory.average()

    def of_member(member: int, part: Part) -> HostCoordinator:
        own = slice(part.offset, part.offset + part.plan.nbytes)
        return HostCoordinator(
            part.plan,
            halves=[half[own] for half in memory.weight_halves()],
            gradient_slots={place: slot[own] for place, slot in gradient_slots.items()},
            compact=compact,
            touched_rows=partial(touched_rows, member),
            publish=shortcut.publish,
            first_parameter=part.first_parameter,
            average=None if average is None else average[own],
        )

    return [of_member(member, part) for member, part in enumerate(parts(planned.plans))]
