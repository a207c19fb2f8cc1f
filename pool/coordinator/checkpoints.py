"""The coordinator's side of what must not be lost: snapshots in memory every few steps, checkpoints on disk.

A checkpoint is a snapshot that a thread writes while training goes on. One that can't be written costs nothing
but itself: the run says so, goes on, and tries again; only the final one has to succeed, in one of a few attempts.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pool.checkpoint.schedule import Schedule
from pool.checkpoint.store import Checkpoint
from pool.checkpoint.writer import CheckpointWriter, Written
from pool.coordinator.snapshots import Snapshots
from pool.errors import CheckpointError

FINAL_ATTEMPTS = 3
FINAL_PAUSE = 1.0  # seconds before the next one; within it the supervisor makes a deleted run folder again

Say = Callable[[str], object]
State = Callable[[], Checkpoint]  # consistent only between two steps


class Checkpoints:
    def __init__(
        self,
        snapshots: Snapshots,
        writer: CheckpointWriter,
        *,
        snapshot_every: int,
        checkpoint_every: int,
        saved: int,
        state: State,
        say: Say,
    ) -> None:
        """`*_every`: steps, 0: never; `saved`: step of the checkpoint that the run goes on from, -1: none."""
        self._snapshots = snapshots
        self._snapshot_every = snapshot_every
        self._writer = writer
        self._schedule = Schedule(checkpoint_every, saved)
        self._state = state
        self._say = say
        self._final: int | None = None  # step of the attempt that must succeed
        self._final_attempts = 0
        self._next_final = 0.0  # time of the next one, at the earliest

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
        elif self._snapshot_every > 0 and step % self._snapshot_every == 0:
            self._snapshots.take(self._state())

    def hear(self) -> None:
        """Takes notice of an attempt that has ended. Raises CheckpointError if it was the final one and failed."""
        if (written := self._writer.take()) is not None:
            self._ended(written)

    def finish(self, step: int) -> bool:
        """Whether the checkpoint of the run's last step is on the disk; call again until it is."""
        if self._schedule.saved == step:
            return True
        if not self._writer.busy and time.monotonic() >= self._next_final:
            self._final = step
            self._final_attempts += 1
            self._begin()
        return False

    def _begin(self) -> None:
        self._schedule.begun()
        taken = self._snapshots.take(self._state())
        self._snapshots.hold()
        self._writer.begin(taken)

    def _ended(self, written: Written) -> None:
        self._snapshots.release()
        pause = self._schedule.ended(written.step, time.monotonic(), well=written.problem is None)
        if written.problem is None:
            return
        have = "there is none yet" if self.saved < 0 else f"the newest good one is that of step {self.saved}"
        account = f"checkpoint of step {written.step} can't be written: {written.problem}; {have}"
        if self._final == written.step:
            if self._final_attempts == FINAL_ATTEMPTS:
                raise CheckpointError(account)
            self._next_final = time.monotonic() + FINAL_PAUSE
            return
        self._say(f"{account}; training goes on, next attempt in {pause:.0f} s or at the end")
