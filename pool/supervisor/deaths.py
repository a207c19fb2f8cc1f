"""Describes deaths of processes, for a line on screen and for the account at the end of the run. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pool.protocol.identity import COORDINATOR, FEEDER, WORKER, Peer

_MEMORY_SETTINGS = {  # settings that make the memory of a role's process smaller
    WORKER: "data.batch_size or the model",
    FEEDER: "data.window_chunks or pool.ring_slots",
    COORDINATOR: "the model, or choose an optimizer with less state",
}


@dataclass(frozen=True)
class Death:
    """Holds what the supervisor knows about the death of a process."""

    peer: Peer
    ending: str  # signal or exit code, to complete "the process ..."
    killed_since: str  # reason for which the supervisor killed the process; empty: it did not
    out_of_memory: bool  # the kernel has killed a process because memory ran out at that time
    batch: int | None  # number of the batch that the process was computing
    last_lines: str  # last lines of the process's log
    exception: str = ""  # exception that ended the process; empty: none did
    log: Path | None = None  # path of the log, which has the traceback
    crashed_in: str = ""  # line of Python code that was running at a SIGSEGV, if the log has it
    gpu: str = ""  # a worker's GPU, by its name in the run

    def describe(self) -> str:
        """Describes the death in one line, without the log's last lines."""
        parts = [self._headline()]
        if self.killed_since:
            parts.append(f"since it {self.killed_since}")
        if "SIGSEGV" in self.ending and self.peer.role == WORKER:
            parts.append(
                "as a task does that changes weights or a batch in place: workers may only read them; a batch's "
                "tensors are to be copied first, weights are after_step's to change"
            )
        if self.batch is not None:
            parts.append(f"it was computing batch {self.batch}")
        if self.exception and self.log is not None:
            parts.append(f"traceback in {self.log}")
        if self.out_of_memory and not self.killed_since:
            settings = _MEMORY_SETTINGS.get(self.peer.role, "the model")
            parts.append(f"probably for want of memory (the kernel's counter of such kills rose): lower {settings}")
        return ", ".join(parts)

    def _headline(self) -> str:
        """Returns the process, how it ended, and the code in which it crashed."""
        incarnation = f"incarnation {self.peer.incarnation}"
        details = f"{incarnation}, {self.gpu}" if self.gpu else incarnation
        ending = f"raised {self.exception}" if self.exception else self.ending
        place = f" in {self.crashed_in}" if self.crashed_in else ""
        return f"{self.peer} ({details}) {ending}{place}"


def describe_deaths(deaths: Sequence[Death]) -> str:
    """Describes every death of a run, the newest first.

    The newest is followed by the last lines of its log, unless its own line names the failing code already.
    """
    *earlier, newest = deaths
    lines = [newest.describe()]
    names_code = newest.exception or newest.crashed_in
    if newest.last_lines and not names_code:
        lines.append(newest.last_lines)
    lines += [f"before that: {death.describe()}" for death in reversed(earlier)]
    return "\n".join(lines)


def add_worker_death(reason: str, deaths: Sequence[Death]) -> str:
    """Adds a worker's death to the coordinator's reason for ending the run, if the reason is a batch.

    The coordinator knows no more than that workers died in that batch. `deaths`: all deaths of the run.
    """
    in_batch = [death for death in deaths if _is_about_batch(reason, death.batch)]
    if not in_batch or in_batch[-1].exception:  # the reason has the exception already
        return reason
    return f"{reason}\n{describe_deaths(in_batch[-1:])}"


def _is_about_batch(reason: str, batch: int | None) -> bool:
    """Tells whether a coordinator's reason for ending the run is an unusable batch, by the beginning of its text."""
    return batch is not None and reason.startswith(f"batch {batch} of step ")
