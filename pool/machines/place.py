"""A machine's place in a run on several: how many there are, which one it is, how it is reached."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class MachinePlace:
    """As the processes of one machine know it."""

    machines: int  # in the run
    machine: int  # this one, from 0 on; 0 is the first machine
    host: str  # the address at which others reach this one
    key: str = field(repr=False)  # the run's: secret half of a CURVE key pair, in Z85
    generation: int = 0  # of the coordinators: all of one begin together
