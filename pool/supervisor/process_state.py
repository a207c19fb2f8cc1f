"""The state of one supervised process. Pure: from events and the time to the next stage, with a sentence that says why.

The transitions are drawn in docs/explanation/recovery.md; tests/pool/supervisor/test_process_table.py compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from pool.protocol.identity import Peer


class Stage(Enum):
    WAITING = "Waiting"  # to be started when its time has come
    ASKED = "Asked"  # the fork server has been asked for it
    STARTING = "Starting"  # it is there, and has not said hello
    READY = "Ready"  # it has to show that it moves
    IDLE = "Idle"  # the fork server between two requests: it may be silent
    KILLED = "Killed"  # by us; its death is still to be seen
    DEAD = "Dead"  # what it had can be given away (I4)


NEXT = {
    Stage.WAITING: (Stage.ASKED, Stage.STARTING),
    Stage.ASKED: (Stage.STARTING, Stage.WAITING),
    Stage.STARTING: (Stage.READY, Stage.IDLE, Stage.KILLED, Stage.DEAD),
    Stage.READY: (Stage.IDLE, Stage.KILLED, Stage.DEAD),
    Stage.IDLE: (Stage.READY, Stage.DEAD),
    Stage.KILLED: (Stage.DEAD,),
    Stage.DEAD: (Stage.WAITING,),
}


@dataclass(frozen=True)
class Patience:
    """How long a process may take, in seconds."""

    hang_timeout: float  # without a sign of life, or without moving, once it is ready
    start_timeout: float  # until it is ready


@dataclass
class ProcessState:
    """The newest incarnation of one process. Times are seconds of one monotonic clock."""

    peer: Peer
    stage: Stage = Stage.WAITING
    due: float = 0.0  # while it waits: when it is to be started
    heard: float = 0.0  # when it was started, or last spoke
    moved: float = 0.0  # when its loop last moved

    def enter(self, stage: Stage, now: float) -> None:
        """Its clocks begin anew."""
        assert stage in NEXT[self.stage], f"{self.peer}: {stage.value} after {self.stage.value}"
        self.stage = stage
        self.heard = self.moved = now

    def wait(self, due: float) -> None:
        """A dead one's successor is to be started at `due`."""
        self.peer = replace(self.peer, incarnation=self.peer.incarnation + 1)
        self.enter(Stage.WAITING, due)
        self.due = due

    def shift(self, seconds: float) -> None:
        """Time that does not count."""
        self.heard += seconds
        self.moved += seconds

    def stuck(self, patience: Patience, now: float) -> str:
        """Why it has to be killed, to complete "the process ..."; empty if it has not to be."""
        silent, still = now - self.heard, now - self.moved
        if self.stage is Stage.STARTING and silent > patience.start_timeout:
            return f"did not get ready within {patience.start_timeout:g} s (pool.start_timeout)"
        if self.stage is Stage.READY and silent > patience.hang_timeout:
            return f"was silent for {silent:.1f} s (pool.hang_timeout)"
        if self.stage is Stage.READY and still > patience.hang_timeout:
            return f"has not moved for {still:.1f} s (pool.hang_timeout)"
        return ""
