"""Reads what workers have left in shared memory, for the inbox."""

from __future__ import annotations

from pool.shm.memory import Memory
from pool.shm.signals import CoordinatorSignals, FinishedBatches


class WorkersMemory:
    """Implements `scheduler.inbox.WorkersMemory`."""

    def __init__(self, memory: Memory, shortcut: CoordinatorSignals) -> None:
        self._memory = memory
        self._shortcut = shortcut

    def finished(self, worker: int) -> FinishedBatches:
        return self._shortcut.read_finished(worker)

    def in_work(self, worker: int) -> tuple[int, int]:
        held = self._memory.work_record(worker).read()
        return held.attempt, held.batch

    def raised(self, worker: int, attempt: int) -> str:
        return self._memory.exception_text(worker).read(attempt)
