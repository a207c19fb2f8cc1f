"""Describes each death of a process, for the line on screen and for the account at the end of the run. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pool.protocol.identity import COORDINATOR, FEEDER, WORKER, Peer

_LOWER = {  # what makes a role's own memory smaller
    WORKER: "data.batch_size or the model",
    FEEDER: "data.window_chunks or pool.ring_slots",
    COORDINATOR: "the model, or choose an optimizer with less state",
}


@dataclass(frozen=True)
class Death:
    peer: Peer
    how: str  # the signal or the exit code, in words
    killed_since: str  # why we killed it; empty: it was not us
    out_of_memory: bool  # the kernel has killed a process because memory ran out at that time
    batch: int | None  # that it was computing
    last_lines: str  # of its log
    raised: str = ""  # the exception that ended it; empty: none did
    log: Path | None = None  # has the traceback
    crashed_in: str = ""  # the line of Python code that a SIGSEGV struck, as far as the log has it
    card: str = ""  # a worker's GPU, by its name in the run

    def line(self) -> str:
        """All of it but the log."""
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
    """Every death of a run, the newest first, with the last lines of its log unless it says itself where it was."""
    lines = [death.line() for death in deaths[:-1]]
    newest = deaths[-1]
    last_lines = "" if newest.raised or newest.crashed_in else newest.last_lines
    return "\n".join(filter(None, (newest.line(), last_lines, *(f"before that: {line}" for line in lines[::-1]))))


def with_death(reason: str, deaths: Sequence[Death]) -> str:
    """Adds to the reason that the coordinator gives for the end how the newest worker died of the batch that it names:
    it knows no more than that there was a death."""
    of_batch = [
        death for death in deaths if death.batch is not None and reason.startswith(f"batch {death.batch} of step ")
    ]
    return f"{reason}\n{account(of_batch[-1:])}" if of_batch and not of_batch[-1].raised else reason
