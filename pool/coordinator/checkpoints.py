"""When the coordinator's state is saved: snapshots in memory every few steps, checkpoints on disk.

A snapshot of a large state takes long, so it may be taken less often than every few steps. Which steps have one decides
how many are repeated after a death, and nothing else (I9).

A checkpoint is a snapshot that a thread writes while training goes on. If it can't be written, the run tells its user,
goes on, and tries again later. The final one has to succeed: the run waits for that, up to an hour.

A version that validates better than all before it gets a checkpoint too. If the thread is still busy then, its copy
waits in the second area, and no other snapshots are taken until its turn comes.
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
from pool.checkpoint.writer import CheckpointWriter, Written
from pool.coordinator.exchange_setup.copies import Copied, Copies, InHostMemory
from pool.coordinator.snapshots import Snapshots
from pool.errors import CheckpointError
from pool.protocol.messages import Saves, StateSum

WAITING = 0.1  # seconds between two calls of `Checkpoints.meanwhile`

Say = Callable[[str], object]
State = Callable[[], Checkpoint]  # consistent only between two steps
Then = Callable[[Checkpoint], object] | None  # what is done with a snapshot; None: nothing, it is there for a successor


class Checkpoints:
    def __init__(
        self,
        snapshots: Snapshots,
        writer: CheckpointWriter,
        schedule: Schedule,
        *,
        goal: Goal = LOWEST_LOSS,
        state: State,
        say: Say,
        copies: Copies | None = None,
        together: bool = False,
    ) -> None:
        """`goal`: which validation is the best; `copies`: of the state, None: it lies in host memory; `together`:
        several machines save the same versions, so that all can go on from one of them: those that the first machine
        decides on (`decide`)."""
        self._snapshots = snapshots
        self._copies = copies or InHostMemory()
        self._on_its_way: tuple[Copied, Then] | None = None
        self._writer = writer
        self._schedule = schedule
        self._state = state
        self._say = say
        self.meanwhile: Callable[[], object] = lambda: None  # called again and again while the thread is waited for
        self._pinned: int | None = None  # the step of a net, whose checkpoint is being written
        self._final: int | None = None  # step of the attempt that must succeed
        self._attempts = FinalAttempts()
        self._said = ""  # why the newest of these has failed
        self._waiting: Checkpoint | None = None  # the best one, until the thread is free
        self.validations = NONE
        self.best_on_disk: Validation | None = None  # of the checkpoint on the disk that validated best
        self._together = together
        self._decided: dict[int, Saves] = {}  # by version
        self.goal = goal

    @property
    def saved(self) -> int:
        """Step of the newest good checkpoint, -1: none."""
        return self._schedule.saved

    @property
    def exported(self) -> int:
        """The newest step with a checkpoint for nets (`train.export_every`), 0: none."""
        return self._schedule.exported

    def fileno(self) -> int:
        """Readable when `hear` has something."""
        return self._writer.fileno()

    def resume(self, step: int, known: Validations) -> None:
        """Before the first step: a predecessor may have died before its best checkpoint was on the disk, or that of a
        net, or the checkpoint has been deleted since. `known`: validations so far."""
        self.validations, best = known, known.best
        self.best_on_disk = best if best is not None and best.step == self._writer.best_step else None
        if self._schedule.is_net(step) and self.saved != step:
            self._save_net(step)
            return
        if best is None or best == self.best_on_disk:
            return
        if best.step == step:
            self._begin()
        else:
            self.validations = replace(self.validations, best=None)
            self._say(f"the best checkpoint, of step {best.step}, is not there any more: the best is chosen anew")

    @property
    def summed(self) -> StateSum | None:
        """A sum over the newest snapshot, None before the first."""
        return self._snapshots.summed

    def decide(self, step: int) -> Saves:
        """Decides, on the first machine, what all save of a version that they are about to make."""
        now = time.monotonic()
        if self._schedule.committed(step, now):
            return "checkpoint"
        return "snapshot" if self._schedule.snapshots.due(step, now) else ""

    def decided(self, step: int, saves: Saves) -> None:
        """The first machine has."""
        self._decided[step] = saves

    def superseded(self) -> None:
        """A version is complete, and what is on its way is of the one before."""
        if self._on_its_way is not None:
            self._on_its_way[0].superseded()

    def committed(self, step: int, *, validated_next: bool) -> None:
        """A step is complete and the next one has changed nothing yet. If the new version is validated first, what is
        due waits for that, so that it holds the result."""
        if not validated_next:
            self._save_what_is_due(step)

    def validated(self, known: Validations) -> None:
        """The newest version is validated, and the next step has changed nothing yet. The best one is that of a
        checkpoint: one that could not be written counts no more."""
        assert known.newest is not None
        newest, before = known.newest, known.without_diverged(self.validations.best)
        is_best = newest.step > 0 and known.diverged_at is None and self.goal.better(newest, before)
        self.validations = replace(known, best=newest if is_best else before)
        if self._schedule.is_net(newest.step):
            self._save_net(newest.step)
        elif is_best:
            self._save_best()
        elif newest.step > 0:
            self._save_what_is_due(newest.step)

    def hear(self) -> None:
        """Handles an attempt that has ended. Raises CheckpointError if it was the final one and failed."""
        if self._on_its_way is not None and self._on_its_way[0].is_there:
            self._land()
        if (written := self._writer.take()) is not None:
            self._ended(written)

    def finish(self, step: int) -> bool:
        """Tells whether the checkpoint of the run's last step is on the disk; to be called again until it is."""
        self._land()
        if self._writer.busy:
            return False
        if self._schedule.saved == step:
            return True
        if self._attempts.due(time.monotonic()):
            self._final = step
            self._begin()
        return False

    @property
    def waits(self) -> bool:
        """Nothing is left to do but the final checkpoint, and that can't be written now."""
        return self._attempts.waits and self._schedule.saved != self._final

    def tidy(self) -> None:
        """After `finish`: what was kept for nets alone goes."""
        if self._schedule.nets:
            self._writer.tidy()

    def _save_what_is_due(self, step: int) -> None:
        if self._schedule.is_net(step):
            self._save_net(step)
        elif self._together:
            self._save_what_is_decided(step)
        elif self._schedule.committed(step, time.monotonic()) and not self._busy:
            self._begin()
        elif self._schedule.snapshots.due(step, time.monotonic()) and self._waiting is None and self._pinned is None:
            self._take()

    def _save_what_is_decided(self, step: int) -> None:
        """Not later, if the thread is busy: other machines may go on from this version."""
        saves = self._decided.pop(step, "")
        if saves:
            self._wait()
            self._take(self._write if saves == "checkpoint" else None)

    def _save_net(self, step: int) -> None:
        """A net has to be exported from this step: the run waits until the thread is free, and there is no newer
        snapshot before the checkpoint is on the disk, so that a successor comes by this step again."""
        self._wait()
        self._pinned = step
        self._begin()

    @property
    def _busy(self) -> bool:
        """A checkpoint is being written, or copied to be."""
        return self._writer.busy or (self._on_its_way is not None and self._on_its_way[1] is not None)

    def _wait(self) -> None:
        self._land()
        while self._writer.busy:
            select.select([self.fileno()], [], [], WAITING)
            self.meanwhile()
            self.hear()

    def _save_best(self) -> None:
        if self._pinned is not None or self._together:
            self._wait()
        self._land()
        if self._writer.busy:
            self._take(self._let_wait)
            self._land()  # no other snapshot before its turn comes
        else:
            self._begin()

    def _let_wait(self, snapshot: Checkpoint) -> None:
        """Lets a checkpoint wait; of two that wait the later one is the better one."""
        self._waiting = snapshot

    def _take(self, then: Then = None) -> None:
        """A snapshot, now or when the state has been copied."""
        self._land()
        self._on_its_way = self._copies.begin(replace(self._state(), validations=self.validations)), then
        if self._on_its_way[0].is_there:
            self._land()

    def _land(self) -> None:
        """Completes the snapshot that is on its way, if there is one."""
        if self._on_its_way is None:
            return
        (copied, then), self._on_its_way = self._on_its_way, None
        copied.wait()
        begin = time.monotonic()
        snapshot = self._snapshots.take(copied.state)
        self._schedule.snapshots.taken(begin, time.monotonic())
        if then is not None:
            then(snapshot)

    def _begin(self) -> None:
        self._take(self._write)

    def _write(self, snapshot: Checkpoint) -> None:
        """`snapshot`: the newest snapshot."""
        self._schedule.begun(time.monotonic())
        self._snapshots.hold()
        self._writer.begin(snapshot)

    def _ended(self, written: Written) -> None:
        self._land()
        self._snapshots.release()
        pause = self._schedule.ended(written.step, time.monotonic(), well=written.problem is None)
        self._settle_best(written)
        if self._pinned == written.step:
            self._pinned = None
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            self._write(waiting)
        if written.problem is None:
            return
        have = "there is none yet" if self.saved < 0 else f"the newest good one is that of step {self.saved}"
        account = f"checkpoint of step {written.step} can't be written: {written.problem}; {have}"
        if self._final == written.step:
            self._final_failed(written, account)
            return
        self._say(f"{account}; training goes on, next attempt in {pause:.0f} s or at the end")

    def _final_failed(self, written: Written, account: str) -> None:
        """Raises CheckpointError if no other attempt is to be made."""
        if written.lasting:
            raise CheckpointError(account)
        if not self._attempts.failed(time.monotonic()):
            raise CheckpointError(f"{account}; tried for {FINAL_MINUTES} minutes", EXIT_RESOURCES)
        if written.problem != self._said:
            self._said = written.problem or ""
            begin = max(self.saved, 0) + 1
            self._say(
                f"{account}; the run keeps it in memory and tries again for {FINAL_MINUTES} minutes: make room. To end "
                f"without it: Ctrl-C twice; --resume then begins with step {begin}"
            )

    def _settle_best(self, written: Written) -> None:
        """A checkpoint that could not be written is not the best one."""
        best = self.validations.best
        if best is None or best.step != written.step:
            return
        if written.problem is None:
            self.best_on_disk = best
        else:
            self.validations = replace(self.validations, best=self.best_on_disk)
