"""The coordinator's side of checkpoints: begins them between steps, hears how they ended, waits for the last one.

A checkpoint that can't be written costs nothing but itself: the run says so, goes on, and tries again; only
the final one has to succeed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pool.checkpoint.schedule import Schedule
from pool.checkpoint.store import Checkpoint
from pool.checkpoint.writer import CheckpointWriter, Written
from pool.errors import CheckpointError

Say = Callable[[str], object]
State = Callable[[], Checkpoint]  # consistent only between two steps


class Checkpoints:
    def __init__(self, writer: CheckpointWriter, every: int, saved: int, state: State, say: Say) -> None:
        """`saved`: step of the checkpoint that the run goes on from, -1: none."""
        self._writer = writer
        self._schedule = Schedule(every, saved)
        self._state = state
        self._say = say
        self._final: int | None = None  # step of the attempt that must succeed

    @property
    def saved(self) -> int:
        """Step of the newest good checkpoint, -1: none."""
        return self._schedule.saved

    def fileno(self) -> int:
        """Readable when `hear` has something."""
        return self._writer.fileno()

    def committed(self, step: int) -> None:
        """A step is complete and the next one has changed nothing yet."""
        if self._schedule.committed(step, time.monotonic()) and not self._writer.busy:
            self._begin()

    def hear(self) -> None:
        """Takes notice of an attempt that has ended. Raises CheckpointError if it was the final one and failed."""
        if (written := self._writer.take()) is not None:
            self._ended(written)

    def finish(self, step: int) -> bool:
        """Whether the checkpoint of the run's last step is on the disk; call again until it is."""
        if self._schedule.saved == step:
            return True
        if not self._writer.busy:
            self._final = step
            self._begin()
        return False

    def _begin(self) -> None:
        self._schedule.begun()
        self._writer.begin(self._state())

    def _ended(self, written: Written) -> None:
        pause = self._schedule.ended(written.step, time.monotonic(), well=written.problem is None)
        if written.problem is None:
            return
        have = "there is none yet" if self.saved < 0 else f"the newest good one is that of step {self.saved}"
        account = f"checkpoint of step {written.step} can't be written: {written.problem}; {have}"
        if self._final == written.step:
            raise CheckpointError(account)
        self._say(f"{account}; training goes on, next attempt in {pause:.0f} s or at the end")
