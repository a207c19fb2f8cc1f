"""Saves the coordinator's state: snapshots in memory every few steps, checkpoints on disk.

A successor of a dead coordinator continues from the newest snapshot. Copying a large state takes long, so its snapshots
may be taken less often. Which steps have one decides how many are repeated after a death, and nothing else (I9).

A checkpoint is a snapshot that a thread writes to disk while training goes on. If it can't be written, the run tells
its user, goes on, and tries again later. The final checkpoint has to succeed: the run waits for it, up to an hour.

A version that validates better than all before it gets a checkpoint too. If the thread is still busy then, its copy
waits in the second area of memory, and no other snapshots are taken until it is written.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from dataclasses import replace

from loader.exit_codes import EXIT_RESOURCES
from pool.checkpoint.schedule import FINAL_MINUTES, FinalAttempts, Schedule
from pool.checkpoint.store import Checkpoint
from pool.checkpoint.validations import LOWEST_LOSS, NONE, Goal, Validation, Validations
from pool.checkpoint.writer import CheckpointWriter, WriteResult
from pool.coordinator.checkpoint_progress import CheckpointProgress, Choice, Reason, Stage
from pool.coordinator.exchange_setup.copies import HostCopies, StateCopies, StateCopy
from pool.coordinator.snapshots import Snapshots
from pool.errors import CheckpointError
from pool.protocol.messages import Saves, StateSum

WAITING = 0.1  # seconds between two calls of `Checkpoints.meanwhile`

Notify = Callable[[str], object]
State = Callable[[], Checkpoint]  # returns the run's state, consistent only between two steps


class Checkpoints:
    """Copies the state for a successor, and has it written to disk. `checkpoint_progress` decides which versions are
    saved how."""

    def __init__(
        self,
        snapshots: Snapshots,
        writer: CheckpointWriter,
        schedule: Schedule,
        *,
        goal: Goal = LOWEST_LOSS,
        state: State,
        notify: Notify,
        copies: StateCopies | None = None,
        together: bool = False,
    ) -> None:
        """Makes the object that saves the run's state by `schedule`, as snapshots in memory and through `writer` on
        disk.

        `goal`: which validation is the best. `state`: returns the run's state, between two steps only. `notify`: shows
        the run's user a line. `copies`: copies the state to host memory; None: it lies there. `together`: True if
        several machines save the same versions, so that all can be resumed from one of them; the first machine decides
        which (`decide`).
        """
        self._snapshots = snapshots
        self._copies = copies or HostCopies()
        self._copying: tuple[StateCopy, Choice] | None = None  # a copy in progress, and how it is saved when complete
        self._progress = CheckpointProgress()
        self._writer = writer
        self._schedule = schedule
        self._state = state
        self._notify = notify
        self.while_waiting: Callable[[], object] = lambda: None  # called repeatedly while waiting for the thread
        self._attempts = FinalAttempts()
        self._reported_problem: str | None = None  # why the final checkpoint failed, as the user was told last
        self._waiting_snapshot: Checkpoint | None = (
            None  # a copy of the best version, to be written when the thread is free
        )
        self.validations = NONE
        self.best_on_disk: Validation | None = None  # the validation of the best checkpoint on disk
        self._decisions: dict[int, Saves] | None = {} if together else None  # by version: what all machines save of it
        self.goal = goal

    @property
    def saved_step(self) -> int:
        """The step of the newest good checkpoint; -1: none."""
        return self._schedule.saved

    @property
    def exported_step(self) -> int:
        """The newest step with a checkpoint from which a net is exported (`train.export_every`); 0: none."""
        return self._schedule.exported

    def fileno(self) -> int:
        """Returns a file descriptor that is readable when a write to disk has ended, so that `hear` is to be called."""
        return self._writer.fileno()

    def resume(self, step: int, known: Validations) -> None:
        """Saves, before the first step, the best checkpoint, or that of a net, if a predecessor has died before it was
        on disk.

        `known`: validations so far. If the best of these has a checkpoint that was deleted since, forgets it and tells
        the user.
        """
        self.validations, best = known, known.best
        self.best_on_disk = best if best is not None and best.step == self._writer.best_step else None
        if self._schedule.is_net(step) and self.saved_step != step:
            self._save(Reason.NET)
            return
        if best is None or best == self.best_on_disk:
            return
        if best.step == step:
            self._save(Reason.BEST)
        else:
            self.validations = replace(self.validations, best=None)
            self._notify(f"the best checkpoint, of step {best.step}, is not there any more: the best is chosen anew")

    @property
    def state_sum(self) -> StateSum | None:
        """A checksum of the newest snapshot, by which machines compare their weights; None before the first."""
        return self._snapshots.summed

    def decide(self, step: int) -> Saves:
        """Decides for all machines what they save of version `step`, which they are about to make: a checkpoint, a
        snapshot or nothing. Called on the first machine only."""
        now = time.monotonic()
        if self._schedule.is_due(step, now):
            return "checkpoint"
        return "snapshot" if self._schedule.snapshots.is_due(step, now) else ""

    def record_decision(self, step: int, saves: Saves) -> None:
        """Notes what the first machine has decided that all machines save of version `step`."""
        assert self._decisions is not None
        self._decisions[step] = saves

    def on_next_version(self) -> None:
        """Tells the copy of the state in progress, if there is one, that the next version of the weights is complete
        and may be followed by writes to the copied memory."""
        if self._copying is not None:
            self._copying[0].protect()

    def on_commit(self, step: int, *, validated_next: bool) -> None:
        """Saves version `step` of the weights if that is due, before the next step changes anything. A version that is
        validated first is saved by `validated` instead, so that what is saved holds the result."""
        if not validated_next:
            self._save_if_due(step)

    def on_validation(self, known: Validations) -> None:
        """Takes the validation of the newest version, and saves the version if it is the best so far or otherwise due,
        before the next step changes anything. Only a validation whose checkpoint was written can stay the best."""
        assert known.newest is not None
        newest, before = known.newest, known.without_diverged(self.validations.best)
        is_best = newest.step > 0 and known.diverged_at is None and self.goal.better(newest, before)
        self.validations = replace(known, best=newest if is_best else before)
        if self._schedule.is_net(newest.step):
            self._save(Reason.NET)
        elif is_best:
            self._save(Reason.BEST if self._decisions is None else Reason.MACHINES)
        elif newest.step > 0:
            self._save_if_due(newest.step)

    def handle_ended(self) -> None:
        """Handles a copy of the state, or a write to disk, that has ended since the last call. Raises CheckpointError
        if the final checkpoint can't be written."""
        if self._copying is not None and self._copying[0].is_complete:
            self._end_copy()
        if (written := self._writer.pop_result()) is not None:
            self._handle_written(written)

    def finish(self, step: int) -> bool:
        """Returns True if the checkpoint of the run's last step is on disk; else tries to write it. To be called again
        until it is."""
        self._end_copy()
        if self._progress.stage is not Stage.IDLE:
            return False
        if self._schedule.saved == step:
            return True
        if self._attempts.is_due(time.monotonic()):
            self._save(Reason.FINAL)
        return False

    @property
    def waits_for_disk(self) -> bool:
        """True if only the final checkpoint is left to write, and the last attempt has failed."""
        return self._attempts.waits

    def remove_exported(self) -> None:
        """Removes checkpoints that were kept only until their nets were exported. To be called when the final
        checkpoint is on disk."""
        if self._schedule.nets:
            self._writer.remove_unneeded()

    def _save_if_due(self, step: int) -> None:
        """Saves version `step` of the weights if a net is to be exported from it, the schedule asks for it, or the
        first machine has decided so."""
        now = time.monotonic()
        if self._schedule.is_net(step):
            self._save(Reason.NET)
        elif self._decisions is not None:
            saves = self._decisions.pop(step, "")
            if saves:
                self._save(Reason.MACHINES, checkpoint=saves == "checkpoint", snapshot=True)
        else:
            checkpoint = self._schedule.is_due(step, now)
            self._save(Reason.SCHEDULE, checkpoint=checkpoint, snapshot=self._schedule.snapshots.is_due(step, now))

    def _save(self, reason: Reason, *, checkpoint: bool = True, snapshot: bool = False) -> None:
        """Saves the newest version of the weights, if a checkpoint or a snapshot of it is due and there is memory for
        it. For some reasons it first waits for the checkpoint in progress."""
        if self._progress.must_wait(reason):
            self._wait()
        choice = self._progress.choose(reason, checkpoint=checkpoint, snapshot=snapshot)
        if choice is Choice.NOTHING:
            return
        self._end_copy()
        if choice is Choice.WRITE:
            self._progress.start_copy(reason)
        self._copying = self._copies.start(replace(self._state(), validations=self.validations)), choice
        if (
            choice is Choice.KEEP or self._copying[0].is_complete
        ):  # at once, so that no snapshot comes before a kept one
            self._end_copy()

    def _wait(self) -> None:
        """Waits until no checkpoint is being copied or written."""
        self._end_copy()
        while self._progress.stage is not Stage.IDLE:
            select.select([self.fileno()], [], [], WAITING)
            self.while_waiting()
            self.handle_ended()

    def _end_copy(self) -> None:
        """Waits until a copy of the state that is in progress is complete, and takes a snapshot of it. Then lets the
        snapshot be written to disk, or keeps it for that, if it was copied for a checkpoint."""
        if self._copying is None:
            return
        (copied, choice), self._copying = self._copying, None
        copied.wait()
        begin = time.monotonic()
        snapshot = self._snapshots.take(copied.state)
        self._schedule.snapshots.record_snapshot(begin, time.monotonic())
        if choice is Choice.WRITE:
            self._progress.start_write()
            self._write(snapshot)
        elif choice is Choice.KEEP:
            self._progress.keep_waiting()
            self._waiting_snapshot = snapshot

    def _write(self, snapshot: Checkpoint) -> None:
        """Lets the background thread write a snapshot to disk. The snapshot stays as it is until that has ended."""
        self._schedule.record_start(time.monotonic())
        self._snapshots.hold()
        self._writer.start(snapshot)

    def _handle_written(self, written: WriteResult) -> None:
        """Handles the end of writing a checkpoint: notes that it is on disk, or tells the user that it failed, then
        begins to write the one that waits. Raises CheckpointError if the final checkpoint failed for good."""
        self._end_copy()
        self._snapshots.release()
        pause = self._schedule.record_end(written.step, time.monotonic(), well=written.problem is None)
        self._update_best(written)
        reason = self._progress.end_write()
        if self._waiting_snapshot is not None:
            kept, self._waiting_snapshot = self._waiting_snapshot, None
            self._write(kept)
        if written.problem is None:
            self._attempts.record_success()
            return
        have = "there is none yet" if self.saved_step < 0 else f"the newest good one is that of step {self.saved_step}"
        account = f"checkpoint of step {written.step} can't be written: {written.problem}; {have}"
        if reason is Reason.FINAL:
            self._handle_final_failure(written, account)
            return
        self._notify(f"{account}; training goes on, next attempt in {pause:.0f} s or at the end")

    def _handle_final_failure(self, written: WriteResult, account: str) -> None:
        """Handles a failed attempt to write the final checkpoint: tells the user that there will be another one. Raises
        CheckpointError if there will be none."""
        if written.is_permanent:
            raise CheckpointError(account)
        if not self._attempts.record_failure(time.monotonic()):
            raise CheckpointError(f"{account}; tried for {FINAL_MINUTES} minutes", EXIT_RESOURCES)
        if written.problem != self._reported_problem:
            self._reported_problem = written.problem
            begin = max(self.saved_step, 0) + 1
            self._notify(
                f"{account}; the run keeps it in memory and tries again for {FINAL_MINUTES} minutes: make room. To end "
                f"without it: Ctrl-C twice; --resume then begins with step {begin}"
            )

    def _update_best(self, written: WriteResult) -> None:
        """Notes that the checkpoint of the best validation is on disk. If it could not be written, the best of those on
        disk counts as the best again."""
        best = self.validations.best
        if best is None or best.step != written.step:
            return
        if written.problem is None:
            self.best_on_disk = best
        else:
            self.validations = replace(self.validations, best=self.best_on_disk)
