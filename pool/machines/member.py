"""One machine's part in a run on several, as its supervisor knows it: what it reports to the first machine, and what
follows from the orders of that. Pure: no sockets, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pool.protocol.messages import CheckpointPlace, Fact, MachineAddress, MachineOrders, MachineReport


@dataclass(frozen=True)
class Begin:
    """Start a coordinator that begins with this step."""

    generation: int
    step: int


@dataclass(frozen=True)
class Break:
    """End the coordinator: its generation can't go on."""

    why: str


@dataclass(frozen=True)
class Refused:
    """This machine can't take part."""

    why: str


@dataclass(frozen=True)
class Over:
    """The run is over on all machines; `why`: empty if nothing is left to do."""

    why: str


Decision = Begin | Break | Refused | Over


class Member:
    def __init__(self, life: str, address: str) -> None:
        """`life`: of this supervisor; `address`: where it is reached."""
        self.report = MachineReport(life, address, ())
        self.coordinators: tuple[MachineAddress, ...] = ()  # of the generation that lives here
        self.missing: tuple[int, ...] = ()  # machines that the others wait for
        self.lacks: CheckpointPlace | None = None  # what is to be copied here, so that all can begin

    @property
    def generation(self) -> int:
        """Returns that of the coordinator that lives here, or is being started; 0: there is none."""
        return self.report.generation

    def knows(self, facts: Sequence[Fact]) -> None:
        """Something more has to be the same on all machines."""
        self.report = replace(self.report, facts=(*self.report.facts, *facts))

    def can_begin(self, steps: Sequence[int], *, copies: bool = False) -> None:
        """A coordinator, which is not there yet, can begin with any of these steps: 0, or a checkpoint. `copies`: with
        another machine's checkpoint too."""
        self.report = replace(self.report, steps=tuple(steps), saved=_checkpoints(steps), copies=copies)

    def reached_at(self, coordinator: str) -> None:
        """The coordinator is up."""
        self.report = replace(self.report, coordinator=coordinator)

    def lost(self, steps: Sequence[int], saved: Sequence[int], *, finished: bool = False) -> None:
        """The coordinator is dead; the next one can begin with any of these steps, of which those `saved` have a
        checkpoint. `finished`: it has done all."""
        lost = max(self.report.lost, self.report.generation)
        self.report = replace(
            self.report,
            generation=0,
            coordinator="",
            lost=lost,
            steps=tuple(steps),
            saved=_checkpoints(saved),
            copies=False,
            finished=finished,
        )

    def ends(self, why: str) -> None:
        """The run is over here."""
        self.report = replace(self.report, ended=why)

    def hear(self, orders: MachineOrders) -> Decision | None:
        """Takes the newest orders; they are repeated until what they say is done."""
        if orders.life != self.report.life:  # a dead supervisor's
            return None
        self.missing, self.lacks = orders.missing, orders.lacks
        if orders.refused:
            return Refused(orders.refused)
        if orders.ended:
            return Over(orders.ended)
        if orders.finished:
            return Over("")
        mine = self.report.generation
        if orders.broken or orders.generation > mine > 0:
            if mine:
                return Break(orders.broken or "the others have begun anew")
            if orders.generation > self.report.lost:  # what has not begun here does not begin any more
                self.report = replace(self.report, lost=orders.generation)
            return None
        if not mine and orders.generation > self.report.lost:
            self.report = replace(
                self.report, generation=orders.generation, steps=(), saved=(), coordinator="", finished=False
            )
            return Begin(orders.generation, orders.step)
        self.coordinators = orders.coordinators if orders.generation == mine else ()
        return None


def _checkpoints(steps: Sequence[int]) -> tuple[int, ...]:
    """Returns those with a checkpoint: a run that has none yet begins with 0."""
    return tuple(filter(None, steps))
