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
    REQUESTED = "Asked"  # the fork server was asked to fork the process
    STARTING = "Starting"  # the process exists, and has not sent Hello
    READY = "Ready"  # has to show that its loop advances
    IDLE = "Idle"  # the fork server between two requests: it may be silent
    KILLED = "Killed"  # by the supervisor; its death is not seen yet
    DEAD = "Dead"  # other processes may use its memory (I4)


NEXT = {
    Stage.WAITING: (Stage.REQUESTED, Stage.STARTING),
    Stage.REQUESTED: (Stage.STARTING, Stage.WAITING),
    Stage.STARTING: (Stage.READY, Stage.IDLE, Stage.KILLED, Stage.DEAD),
    Stage.READY: (Stage.IDLE, Stage.KILLED, Stage.DEAD),
    Stage.IDLE: (Stage.READY, Stage.DEAD),
    Stage.KILLED: (Stage.DEAD,),
    Stage.DEAD: (Stage.WAITING,),
}


@dataclass(frozen=True)
class Timeouts:
    """Limits the time that a process may take, in seconds."""

    hang_timeout: float  # without a message, or without an advance of its loop, once the process is ready
    start_timeout: float  # until the process is ready


@dataclass
class ProcessState:
    """Holds the state of one process, of its newest incarnation (life from start to death). Times are seconds of a
    monotonic clock."""

    peer: Peer
    stage: Stage = Stage.WAITING
    due: float = 0.0  # in stage Waiting: when to start the process
    last_message: float = 0.0  # when the process was started, or last sent a message
    last_advance: float = 0.0  # when the process's loop last advanced

    def enter(self, stage: Stage, now: float) -> None:
        """Enters a stage and restarts the clocks of silence and standstill. Asserts that the transition is allowed."""
        assert stage in NEXT[self.stage], f"{self.peer}: {stage.value} after {self.stage.value}"
        self.stage = stage
        self.last_message = self.last_advance = now

    def schedule_restart(self, due: float) -> None:
        """Replaces a dead process by its next incarnation, which is to be started at `due`."""
        self.peer = replace(self.peer, incarnation=self.peer.incarnation + 1)
        self.enter(Stage.WAITING, due)
        self.due = due

    def discount(self, seconds: float) -> None:
        """Subtracts `seconds` from the measured silence and standstill."""
        self.last_message += seconds
        self.last_advance += seconds

    def reason_to_kill(self, timeouts: Timeouts, now: float) -> str:
        """Returns the reason to kill the process, to complete "the process ...", or an empty string if it may live."""
        silence, standstill = now - self.last_message, now - self.last_advance
        if self.stage is Stage.STARTING and silence > timeouts.start_timeout:
            return f"did not get ready within {timeouts.start_timeout:g} s (pool.start_timeout)"
        if self.stage is Stage.READY and silence > timeouts.hang_timeout:
            return f"was silent for {silence:.1f} s (pool.hang_timeout)"
        if self.stage is Stage.READY and standstill > timeouts.hang_timeout:
            return f"has not moved for {standstill:.1f} s (pool.hang_timeout)"
        return ""
