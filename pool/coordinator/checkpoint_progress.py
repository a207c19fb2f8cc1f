"""Decides what becomes of a version while a checkpoint is under way. Pure: knows neither memory nor disk."""

from __future__ import annotations

from enum import Enum, auto


class Stage(Enum):
    """How far the checkpoint under way has come."""

    IDLE = auto()  # there is none
    COPYING = auto()  # its state is being copied
    WRITING = auto()  # a thread writes it; snapshots go to the other area of memory
    WRITING_FIRST = auto()  # a thread writes it, and the next one is in the other area: no snapshots


NEXT = {
    Stage.IDLE: (Stage.COPYING,),
    Stage.COPYING: (Stage.WRITING,),
    Stage.WRITING: (Stage.IDLE, Stage.WRITING_FIRST),
    Stage.WRITING_FIRST: (Stage.WRITING, Stage.WRITING_FIRST),  # of two that wait the later one is the better one
}


class Reason(Enum):
    """Why a version is saved."""

    SCHEDULE = auto()  # steps or minutes have passed
    BEST = auto()  # it validates better than all before it
    NET = auto()  # a net is exported from it: no snapshots before it is on the disk, so that a successor comes by again
    MACHINES = auto()  # all machines save it, so that all can go on from it
    FINAL = auto()  # it is the run's last one


WAIT = (Reason.NET, Reason.MACHINES)  # reasons to let the run wait until the thread is free


class Choice(Enum):
    """What becomes of a version."""

    NOTHING = auto()
    SNAPSHOT = auto()  # it is copied, for a successor
    KEEP = auto()  # it is copied, and written as soon as the thread is free
    WRITE = auto()  # it is copied and written


class CheckpointProgress:
    """The stage of the checkpoint under way, and why it is made."""

    def __init__(self) -> None:
        self.stage = Stage.IDLE
        self.reason: Reason | None = None  # None: there is no checkpoint under way

    def must_wait(self, reason: Reason) -> bool:
        """Returns True if the checkpoint under way has to be on the disk before a version is saved for `reason`."""
        if self.stage is Stage.IDLE:
            return False
        return reason in WAIT or (reason is Reason.BEST and self.reason is Reason.NET)

    def choose(self, reason: Reason, *, checkpoint: bool = True, snapshot: bool = False) -> Choice:
        """Chooses what becomes of a version of which a checkpoint or a snapshot is due, after `must_wait`."""
        if checkpoint and self.stage is Stage.IDLE:
            return Choice.WRITE
        if checkpoint and reason is Reason.BEST:
            return Choice.KEEP
        if snapshot and self.stage is not Stage.WRITING_FIRST and self.reason is not Reason.NET:
            return Choice.SNAPSHOT
        return Choice.NOTHING

    def begin(self, reason: Reason) -> None:
        """Notes that the state of a new checkpoint is being copied."""
        self._enter(Stage.COPYING)
        self.reason = reason

    def write(self) -> None:
        """Notes that the state has been copied, and the thread writes it."""
        self._enter(Stage.WRITING)

    def keep(self) -> None:
        """Notes that the next checkpoint waits in the other area."""
        self._enter(Stage.WRITING_FIRST)

    def end(self) -> Reason | None:
        """Notes that the thread has ended. Returns why that checkpoint was made. One that waits is written next."""
        ended = self.reason
        if self.stage is Stage.WRITING_FIRST:
            self._enter(Stage.WRITING)
            self.reason = Reason.BEST
        else:
            self._enter(Stage.IDLE)
            self.reason = None
        return ended

    def _enter(self, stage: Stage) -> None:
        assert stage in NEXT[self.stage], f"{stage.name} after {self.stage.name}"
        self.stage = stage
