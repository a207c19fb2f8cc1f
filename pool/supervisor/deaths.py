"""Describes deaths of processes in words, for a line on screen and for the account at the end of the run. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pool.protocol.identity import COORDINATOR, FEEDER, WORKER, Peer

_LOWER = {  # settings that make the memory of a role's process smaller
    WORKER: "data.batch_size or the model",
    FEEDER: "data.window_chunks or pool.ring_slots",
    COORDINATOR: "the model, or choose an optimizer with less state",
}


@dataclass(frozen=True)
class Death:
    """Holds what is known about the death of a process."""

    peer: Peer
    how: str  # the signal or the exit code, in words
    killed_since: str  # why the supervisor killed it; empty: it did not
    out_of_memory: bool  # the kernel has killed a process because memory ran out at that time
    batch: int | None  # number of the batch that the process was computing
    last_lines: str  # last lines of the process's log
    raised: str = ""  # the exception that ended it; empty: none did
    log: Path | None = None  # path of the log, which has the traceback
    crashed_in: str = ""  # the line of Python code that a SIGSEGV struck, as far as the log has it
    card: str = ""  # a worker's GPU, by its name in the run

    def line(self) -> str:
        """Describes the death in one line, without the log's last lines."""
        how = f"raised {self.raised}" if self.raised else self.how
        where = f", {self.card}" if self.card else ""
        parts = [f"{self.peer} (incarnation {self.peer.incarnation}{where}) {how}"]
        if self.killed_since:
            parts.append(f"since it {self.killed_since}")
        if self.crashed_in:
            parts[0] += f" in {self.crashed_in}"
        if "SIGSEGV" in self.how and self.peer.role == WORKER:
            parts.append(
                "as a task does that changes weights or a batch in place: workers may only read them; a batch's "
                "tensors are to be copied first, weights are after_step's to change"
            )
        if self.batch is not None:
            parts.append(f"it was computing batch {self.batch}")
        if self.raised and self.log is not None:
            parts.append(f"traceback in {self.log}")
        if self.out_of_memory and not self.killed_since:
            lower = _LOWER.get(self.peer.role, "the model")
            parts.append(f"probably for want of memory (the kernel's counter of such kills rose): lower {lower}")
        return ", ".join(parts)


def account(deaths: Sequence[Death]) -> str:
    """Describes every death of a run, the newest first.

    The newest is followed by the last lines of its log, unless the death's line names the place in the code already.
    """
    lines = [death.line() for death in deaths[:-1]]
    newest = deaths[-1]
    last_lines = "" if newest.raised or newest.crashed_in else newest.last_lines
    return "\n".join(filter(None, (newest.line(), last_lines, *(f"before that: {line}" for line in lines[::-1]))))


def with_death(reason: str, deaths: Sequence[Death]) -> str:
    """Adds the newest death of a worker to the coordinator's reason for ending the run, if the reason names a batch.

    The coordinator knows no more than that a worker died in that batch.
    """
    of_batch = [
        death for death in deaths if death.batch is not None and reason.startswith(f"batch {death.batch} of step ")
    ]
    return f"{reason}\n{account(of_batch[-1:])}" if of_batch and not of_batch[-1].raised else reason
