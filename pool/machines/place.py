"""A machine's place in a run on several: how many there are, which one it is, how it is reached."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

MOST_BATCHES = 1 << 10  # of a machine's share of a step: what it says of them fits a message
MOST_NUMBERS = 1 << 15  # of these batches' losses, one a member


@dataclass(frozen=True)
class MachinePlace:
    """A machine among others, as its processes know it."""

    machines: int  # in the run
    machine: int  # this one, from 0 on; 0 is the first machine
    host: str  # the address at which others reach this one
    key: str = field(repr=False)  # the run's: secret half of a CURVE key pair, in Z85
    generation: int = 0  # of the coordinators: all of one begin together
    port: int = 0  # at which the supervisor listens, unless it is the first machine's; 0: any that is free

    @property
    def coordinator_port(self) -> int:
        """Returns the port at which the coordinator listens; 0: any that is free."""
        return self.port + 1 if self.port else 0


def named(machines: Collection[int]) -> str:
    """Returns them in words; empty: there are none."""
    return f"machine{'s' if len(machines) > 1 else ''} {', '.join(map(str, sorted(machines)))}" if machines else ""
