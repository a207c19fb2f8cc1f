"""Identifies a process of a run by role, index and incarnation."""

from __future__ import annotations

from dataclasses import dataclass

SUPERVISOR = "supervisor"
COORDINATOR = "coordinator"
FEEDER = "feeder"
WORKER = "worker"
MACHINE = "machine"  # a machine's supervisor or coordinator, as its counterparts on other machines see it
PLANNER = "planner"  # like the fork server it sends nothing over zmq sockets
FORKSERVER = "forkserver"


@dataclass(frozen=True, order=True)
class Peer:
    """Identifies one process, from fork to exit.

    A restarted process has the same role and index and the next incarnation. Messages of earlier incarnations are
    dropped (I5).
    """

    role: str
    index: int = 0
    incarnation: int = 1

    def __str__(self) -> str:
        if self.role == FORKSERVER:
            return "fork server"
        return f"{self.role} {self.index}" if self.role in (WORKER, MACHINE) else self.role

    @property
    def role_index(self) -> tuple[str, int]:
        """Returns role and index, which stay the same when the process is restarted."""
        return (self.role, self.index)

    @property
    def log_name(self) -> str:
        """Returns the name of the log file that all incarnations write to."""
        return f"{self.role}-{self.index}.log"
