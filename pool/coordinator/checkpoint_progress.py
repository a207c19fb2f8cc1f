"""Decides how a version of the weights is saved while a checkpoint of an earlier one is still being written. Pure:
knows neither memory nor disk."""

from __future__ import annotations

from enum import Enum, auto


class Stage(Enum):
    """How far the checkpoint in progress has come."""

    IDLE = auto()  # no checkpoint is in progress
    COPYING = auto()  # the state is being copied
    WRITING = auto()  # a thread writes the copy; snapshots go to the other area of memory
    WRITING_FIRST = auto()  # as WRITING, and the next checkpoint waits in the other area, so no snapshots


NEXT = {
    Stage.IDLE: (Stage.COPYING,),
    Stage.COPYING: (Stage.WRITING,),
    Stage.WRITING: (Stage.IDLE, Stage.WRITING_FIRST),
    Stage.WRITING_FIRST: (Stage.WRITING, Stage.WRITING_FIRST),  # a later, better version replaces one that waits
}


class Reason(Enum):
    """Why a version is saved."""

    SCHEDULE = auto()  # steps or minutes have passed
    BEST = auto()  # it validates better than all before it
    NET = auto()  # a net is exported from it; no snapshots before it is on disk, so that a successor saves it too
    MACHINES = auto()  # all machines save it, so that all can go on from it
    FINAL = auto()  # it is the run's last one


WAIT = (Reason.NET, Reason.MACHINES)  # reasons for which training waits until the thread is free


class Choice(Enum):
    """How a version is saved."""

    NOTHING = auto()
    SNAPSHOT = auto()  # it is copied, for a successor
    KEEP = auto()  # it is copied, and written as soon as the thread is free
    WRITE = auto()  # it is copied and written


class CheckpointProgress:
    """The stage of the checkpoint in progress, and the reason why it is made."""

    def __init__(self) -> None:
        self.stage = Stage.IDLE
        self.reason: Reason | None = None  # None: no checkpoint is in progress

    def must_wait(self, reason: Reason) -> bool:
        """Returns True if the checkpoint in progress has to be on the disk before a version is saved for `reason`."""
        if self.stage is Stage.IDLE:
            return False
        return reason in WAIT or (reason is Reason.BEST and self.reason is Reason.NET)

    def choose(self, reason: Reason, *, checkpoint: bool = True, snapshot: bool = False) -> Choice:
        """Returns how a version is saved of which a checkpoint or a snapshot is due. If `must_wait` is True, the caller
        has to wait first."""
        if checkpoint and self.stage is Stage.IDLE:
            return Choice.WRITE
        if checkpoint and reason is Reason.BEST:
            return Choice.KEEP
        if snapshot and self.stage is not Stage.WRITING_FIRST and self.reason is not Reason.NET:
            return Choice.SNAPSHOT
        return Choice.NOTHING

    def start_copy(self, reason: Reason) -> None:
        """Notes that the state of a new checkpoint is being copied."""
        self._enter(Stage.COPYING)
        self.reason = reason

    def start_write(self) -> None:
        """Notes that the state of the checkpoint has been copied, and that a thread writes it to disk now."""
        self._enter(Stage.WRITING)

    def keep_waiting(self) -> None:
        """Notes that the state for the next checkpoint is copied and waits until the thread is free."""
        self._enter(Stage.WRITING_FIRST)

    def end_write(self) -> Reason | None:
        """Notes that the checkpoint in progress is written or has failed, and returns why it was made. If another one
        waits, it is written next."""
        ended = self.reason
        if self.stage is Stage.WRITING_FIRST:
            self._enter(Stage.WRITING)
            self.reason = Reason.BEST
        else:
            self._enter(Stage.IDLE)
            self.reason = None
        return ended

    def _enter(self, stage: Stage) -> None:
        """Moves to the stage `stage`, which NEXT must allow."""
        assert stage in NEXT[self.stage], f"{stage.name} after {self.stage.name}"
        self.stage = stage
