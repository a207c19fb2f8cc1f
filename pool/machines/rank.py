"""Describes a machine's rank and addresses in a run on several machines."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

MAX_SHARE_BATCHES = 1 << 10  # of a machine's share of a step, so that their results fit a message
MAX_SHARE_LOSSES = 1 << 15  # of these batches, one for each member


@dataclass(frozen=True)
class MachineRank:
    """Describes one machine of several, as its processes need to know it."""

    num_machines: int  # in the run
    machine: int  # index of this machine; 0 is the first machine
    host: str  # address at which other machines reach this one
    key: str = field(repr=False)  # key of the run: secret half of a CURVE key pair, in Z85
    generation: int = 0  # number of the coordinators' shared life: those of one generation begin together
    port: int = 0  # at which the supervisor listens, except the first machine's; 0: any that is free

    @property
    def coordinator_port(self) -> int:
        """Returns the port at which the coordinator listens, or 0 for any that is free."""
        return self.port + 1 if self.port else 0


def format_machines(machines: Collection[int]) -> str:
    """Returns the names of machines by their indices, such as `machines 0, 2`. Empty if there are none."""
    if not machines:
        return ""
    plural = "s" if len(machines) > 1 else ""
    return f"machine{plural} {', '.join(map(str, sorted(machines)))}"
