"""Holds the state of one supervised process, and decides when it is stuck. Pure: from events and times to the next
stage.

The transitions are drawn in docs/explanation/recovery.md; tests/pool/supervisor/test_process_table.py compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from pool.protocol.identity import Peer


class Stage(Enum):
    """Names the stages in a process's life, as the supervisor sees it."""

    WAITING = "Waiting"  # has to be started when its pause is over
    ASKED = "Asked"  # the fork server was asked to fork the process
    STARTING = "Starting"  # the process exists, and has not sent Hello
    READY = "Ready"  # has to show that its loop advances
    IDLE = "Idle"  # the fork server between two requests: it may be silent
    KILLED = "Killed"  # by the supervisor; its death is not seen yet
    DEAD = "Dead"  # its memory may be given to others (I4)


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
    """Limits the time that a process may take, in seconds."""

    hang_timeout: float  # without a message, or without an advance of its loop, once the process is ready
    start_timeout: float  # until the process is ready


@dataclass
class ProcessState:
    """Holds the state of one process, of its newest incarnation (life from start to death). Times are seconds of a
    monotonic clock."""

    peer: Peer
    stage: Stage = Stage.WAITING
    due: float = 0.0  # in stage Waiting: when to start it
    heard: float = 0.0  # when the process was started, or last sent a message
    moved: float = 0.0  # when the process's loop last advanced

    def enter(self, stage: Stage, now: float) -> None:
        """Enters a stage and restarts the clocks of silence and standstill. Asserts that the transition is allowed."""
        assert stage in NEXT[self.stage], f"{self.peer}: {stage.value} after {self.stage.value}"
        self.stage = stage
        self.heard = self.moved = now

    def wait(self, due: float) -> None:
        """Replaces a dead process by its next incarnation, which is to be started at `due`."""
        self.peer = replace(self.peer, incarnation=self.peer.incarnation + 1)
        self.enter(Stage.WAITING, due)
        self.due = due

    def shift(self, seconds: float) -> None:
        """Leaves out `seconds` from the measured silence and standstill."""
        self.heard += seconds
        self.moved += seconds

    def stuck(self, patience: Patience, now: float) -> str:
        """Returns the reason to kill the process, to complete "the process ...", or an empty string if it may live."""
        silent, still = now - self.heard, now - self.moved
        if self.stage is Stage.STARTING and silent > patience.start_timeout:
            return f"did not get ready within {patience.start_timeout:g} s (pool.start_timeout)"
        if self.stage is Stage.READY and silent > patience.hang_timeout:
            return f"was silent for {silent:.1f} s (pool.hang_timeout)"
        if self.stage is Stage.READY and still > patience.hang_timeout:
            return f"has not moved for {still:.1f} s (pool.hang_timeout)"
        return ""
