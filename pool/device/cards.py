"""What the planner finds out about each GPU of a run, for the other processes and for people. Plain data."""

from __future__ import annotations

from dataclasses import dataclass

_LANE = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}  # GB/s of PCIe generations, one lane, each way


@dataclass(frozen=True)
class Link:
    """A card's way to the host: PCIe, as it was while the card copied; a link at rest is slower."""

    generation: int
    width: int  # lanes
    most_generation: int  # that card and slot can
    most_width: int

    @property
    def speed(self) -> float:
        """GB/s each way, at most."""
        return _LANE.get(self.generation, 0.0) * self.width

    def __str__(self) -> str:
        text = f"PCIe {self.generation} x{self.width}, {self.speed:.0f} GB/s at most"
        if (self.generation, self.width) != (self.most_generation, self.most_width):
            text += f" (could be {self.most_generation} x{self.most_width})"
        return text


@dataclass(frozen=True)
class Speeds:
    """Measured by short copies, GB/s."""

    inward: float  # from page-locked memory of the host, as a ring slot travels
    outward: float  # to it, as gradients travel
    memory: float  # bytes read and written in the card's own memory
    host: float  # bytes read and written in the host's memory, by all its cores
    products: float  # 1e9 operations/s of dense products in float32


@dataclass(frozen=True)
class Card:
    device: str  # its name in the run, cuda:0
    name: str
    nbytes: int  # of its memory
    free: int  # of that, before the run
    capability: str  # 9.0; empty: it is no CUDA device
    visible: str = ""  # CUDA_VISIBLE_DEVICES of a process that is to see this card alone; empty: as it is
    link: Link | None = None  # None: not known
    speeds: Speeds | None = None  # None: not measured
    page_locked: bool = True  # memory as the ring's can be registered with it
    peers: tuple[str, ...] = ()  # devices of the run whose memory it may use
    kernels: str = ""  # in words: what of them is compiled
    problem: str = ""  # why some of this is not known
