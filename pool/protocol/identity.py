"""Identity of a process: role, index, incarnation."""

from __future__ import annotations

from dataclasses import dataclass

SUPERVISOR = "supervisor"
COORDINATOR = "coordinator"
FEEDER = "feeder"
WORKER = "worker"
MACHINE = "machine"  # its supervisor, or its coordinator, for their like on other machines
PLANNER = "planner"  # says nothing over sockets; nor does the fork server
FORKSERVER = "forkserver"


@dataclass(frozen=True, order=True)
class Peer:
    """One process, from fork to exit. A restart has the next incarnation; messages of earlier ones are dropped (I5)."""

    role: str
    index: int = 0
    incarnation: int = 1

    def __str__(self) -> str:
        if self.role == FORKSERVER:
            return "fork server"
        return f"{self.role} {self.index}" if self.role in (WORKER, MACHINE) else self.role

    @property
    def place(self) -> tuple[str, int]:
        """The part of the identity that stays the same over restarts."""
        return (self.role, self.index)

    @property
    def log(self) -> str:
        """Name of the file for the output of all its incarnations."""
        return f"{self.role}-{self.index}.log"
