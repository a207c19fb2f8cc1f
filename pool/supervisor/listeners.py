"""What the supervisor listens to beside the processes of the run: programs that export nets, and other machines. A
listener decides, and the supervisor acts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pool.machines.place import MachinePlace
from pool.protocol.identity import Peer
from pool.protocol.messages import RunReport


@dataclass(frozen=True)
class SendRoster:
    """All processes get the roster anew: a part of it has changed."""


@dataclass(frozen=True)
class KillCoordinator:
    why: str


@dataclass(frozen=True)
class StartCoordinator:
    """Start the successor of a coordinator that has ended."""

    predecessor: Peer
    why: str
    place: MachinePlace | None  # among the other machines; None: the run goes on without them
    step: int | None = None  # that all machines begin with; None: the newest here


@dataclass(frozen=True)
class EndRun:
    """Nothing is left to do."""


Action = SendRoster | KillCoordinator | StartCoordinator | EndRun


class Listener(Protocol):
    def report(self, report: RunReport) -> None:
        """Receives a report of the coordinator."""

    def hear(self, events: Mapping[object, int]) -> Sequence[Action]:
        """Handles what has happened since the last call; returns what the supervisor has to do, in order. `events`:
        what its poller has seen. Raises PoolError if the run can't go on."""

    def stop(self) -> None:
        """The run is being stopped."""
