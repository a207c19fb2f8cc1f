"""Describes a machine's rank and addresses in a run on several machines."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

MOST_BATCHES = 1 << 10  # most batches in a machine's share of a step, so that their results fit a message
MOST_NUMBERS = 1 << 15  # most losses of these batches, one for each member


@dataclass(frozen=True)
class MachinePlace:
    """Describes one machine of several, as its processes need to know it."""

    machines: int  # number of machines in the run
    machine: int  # index of this machine; 0 is the first machine
    host: str  # address at which other machines reach this one
    key: str = field(repr=False)  # key of the run: secret half of a CURVE key pair, in Z85
    generation: int = 0  # number of the coordinators' shared life: those of one generation begin together
    port: int = 0  # at which the supervisor listens, except the first machine's; 0: any that is free

    @property
    def coordinator_port(self) -> int:
        """Returns the port at which the coordinator listens, or 0 for any that is free."""
        return self.port + 1 if self.port else 0


def named(machines: Collection[int]) -> str:
    """Returns the names of machines by their indices, such as `machines 0, 2`. Empty if there are none."""
    return f"machine{'s' if len(machines) > 1 else ''} {', '.join(map(str, sorted(machines)))}" if machines else ""
