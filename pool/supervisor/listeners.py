"""Defines what the supervisor listens to besides the run's processes: programs that export nets, and other machines.

A listener decides, and the supervisor carries out its actions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pool.machines.rank import MachineRank
from pool.protocol.identity import Peer
from pool.protocol.messages import RunReport


@dataclass(frozen=True)
class SendRoster:
    """Orders the supervisor to send the roster to all processes, because a part of the roster has changed."""


@dataclass(frozen=True)
class KillCoordinator:
    """Orders the supervisor to kill the coordinator, for a reason that is not its fault."""

    reason: str


@dataclass(frozen=True)
class StartCoordinator:
    """Orders the supervisor to start the successor of a coordinator that has ended."""

    predecessor: Peer
    reason: str
    rank: MachineRank | None  # this machine's rank among the others; None: the run goes on without them
    step: int | None = None  # step that all machines begin with; None: the newest of this machine


@dataclass(frozen=True)
class EndRun:
    """Orders the supervisor to end the run, since nothing is left to do."""


Action = SendRoster | KillCoordinator | StartCoordinator | EndRun


class Listener(Protocol):
    """Decides what the supervisor has to do about events from outside the run's processes, such as other machines."""

    def handle_report(self, report: RunReport) -> None:
        """Handles a report of the coordinator."""

    def poll(self, events: Mapping[object, int]) -> Sequence[Action]:
        """Handles what has happened since the last call. Returns the actions for the supervisor, in order.

        `events`: events of the supervisor's poller, by descriptor. Raises PoolError if the run can't go on.
        """

    def stop(self) -> None:
        """Stops the listener's own work, since the run is being stopped."""
