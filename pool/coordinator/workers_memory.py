"""The coordinator's view of its workers' memory, for the inbox and the exchange."""

from __future__ import annotations

from loader.batch.schema import SparseBatch
from pool.devices import parse_device
from pool.exchange.addend import Touched
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

    def in_work(self, worker: int) -> int:
        return int(self._memory.in_work(worker)[0])

    def raised(self, worker: int, attempt: int) -> str:
        return self._memory.raised(worker).of(attempt)


def exchange_of(launch: Launch, memory: Memory, shortcut: CoordinatorEnd) -> HostCoordinator:
    """The coordinator's end of the exchange."""
    planned, module = launch.planned, launch.config.testing.device_module
    gradient_slots = {
        (worker, slot): place
        for worker in range(len(planned.devices))
        for slot, place in enumerate(memory.gradient_slots(worker))
    }

    def touched_rows(batch: int, field: str) -> Touched:
        return SparseBatch.view(planned.schema, memory.batch_slot("train", batch)).sparse[field].touched

    return HostCoordinator(
        planned.plan,
        halves=memory.weight_halves(),
        gradient_slots=gradient_slots,
        compact=[worker for worker, spec in enumerate(planned.devices) if parse_device(spec, module).is_accelerator],
        touched_rows=touched_rows,
        publish=shortcut.publish,
    )
