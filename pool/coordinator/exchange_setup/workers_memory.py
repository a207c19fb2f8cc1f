"""Reads what workers have left in shared memory, for the inbox."""

from __future__ import annotations

from pool.shm.memory import Memory
from pool.shm.signals import CoordinatorEnd, Finished


class WorkersMemory:
    """Implements `scheduler.inbox.WorkersMemory`."""

    def __init__(self, memory: Memory, shortcut: CoordinatorEnd) -> None:
        self._memory = memory
        self._shortcut = shortcut

    def finished(self, worker: int) -> Finished:
        return self._shortcut.finished(worker)

    def in_work(self, worker: int) -> tuple[int, int]:
        held = self._memory.in_work(worker).held
        return held.attempt, held.batch

    def raised(self, worker: int, attempt: int) -> str:
        return self._memory.raised(worker).of(attempt)
