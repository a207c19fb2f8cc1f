"""Holds one machine's part in a run on several machines: its report to the first machine, and what follows from orders.

Uses no sockets and no clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pool.protocol.messages import CheckpointLocation, Fact, MachineAddress, MachineOrders, MachineReport


@dataclass(frozen=True)
class StartGeneration:
    """Orders this machine to start a coordinator that begins with `step`."""

    generation: int
    step: int


@dataclass(frozen=True)
class StopGeneration:
    """Orders this machine to end its coordinator, because the coordinator's generation (shared life of all) can't go
    on."""

    reason: str


@dataclass(frozen=True)
class MachineRefused:
    """Tells that this machine can't take part in the run."""

    reason: str


@dataclass(frozen=True)
class RunEnded:
    """Tells that the run is over on all machines. `reason`: empty if all steps are done."""

    reason: str


Decision = StartGeneration | StopGeneration | MachineRefused | RunEnded


class Follower:
    """Builds this machine's report from events, and turns the first machine's orders into decisions."""

    def __init__(self, life: str, address: str) -> None:
        """Starts with an empty report. `life`: random id of this supervisor; `address`: where other machines reach
        it."""
        self.report = MachineReport(life, address, ())
        self.coordinators: tuple[MachineAddress, ...] = ()  # of the generation that runs here
        self.missing_machines: tuple[int, ...] = ()  # silent machines, for which the other machines wait
        self.checkpoint_to_copy: CheckpointLocation | None = None  # to this machine, before all can begin

    @property
    def generation(self) -> int:
        """Returns the generation of the coordinator that runs on this machine or is being started, 0 if there is
        none."""
        return self.report.generation

    def add_facts(self, facts: Sequence[Fact]) -> None:
        """Adds facts to the report, which must be the same on all machines."""
        self.report = replace(self.report, facts=(*self.report.facts, *facts))

    def report_steps(self, steps: Sequence[int], *, copies: bool = False) -> None:
        """Reports the steps with which a coordinator could begin on this machine, while none runs: 0, or steps of
        checkpoints.

        `copies`: this machine may copy a checkpoint from another one if they have no step in common.
        """
        self.report = replace(self.report, steps=tuple(steps), saved=_steps_of_checkpoints(steps), copies=copies)

    def report_coordinator(self, address: str) -> None:
        """Reports that the coordinator runs, and the address at which it is reached."""
        self.report = replace(self.report, coordinator=address)

    def report_death(self, steps: Sequence[int], saved: Sequence[int], *, finished: bool = False) -> None:
        """Reports that the coordinator is dead.

        `steps`: with which the next one can begin; `saved`: the steps among these that have a checkpoint; `finished`:
        all steps were done.
        """
        lost = max(self.report.lost, self.report.generation)
        self.report = replace(
            self.report,
            generation=0,
            coordinator="",
            lost=lost,
            steps=tuple(steps),
            saved=_steps_of_checkpoints(saved),
            copies=False,
            finished=finished,
        )

    def report_end(self, reason: str) -> None:
        """Reports that the run is over on this machine, and why."""
        self.report = replace(self.report, ended=reason)

    def apply_orders(self, orders: MachineOrders) -> Decision | None:
        """Applies the newest orders. Returns what this machine has to do, or None if nothing is to be done.

        The first machine repeats its orders until the report shows that they are carried out.
        """
        if orders.life != self.report.life:  # orders for a dead supervisor, this one's predecessor
            return None
        self.missing_machines = orders.missing
        self.checkpoint_to_copy = orders.lacks
        if orders.refused:
            return MachineRefused(orders.refused)
        if orders.ended:
            return RunEnded(orders.ended)
        if orders.finished:
            return RunEnded("")
        if self.generation:
            return self._continue_generation(orders)
        if orders.generation > self.report.lost:
            return self._join_generation(orders)
        if not orders.broken:
            self.coordinators = ()
        return None

    def _continue_generation(self, orders: MachineOrders) -> StopGeneration | None:
        """Updates the other coordinators' addresses, or stops the generation that runs here."""
        if orders.broken or orders.generation > self.generation:
            return StopGeneration(orders.broken or "the others have begun anew")
        self.coordinators = orders.coordinators if orders.generation == self.generation else ()
        return None

    def _join_generation(self, orders: MachineOrders) -> StartGeneration | None:
        """Starts a generation that is new to this machine, unless that is broken already."""
        if orders.broken:  # a generation that has not begun here will not begin any more
            self.report = replace(self.report, lost=orders.generation)
            return None
        self.report = replace(
            self.report, generation=orders.generation, steps=(), saved=(), coordinator="", finished=False
        )
        return StartGeneration(orders.generation, orders.step)


def _steps_of_checkpoints(steps: Sequence[int]) -> tuple[int, ...]:
    """Returns the steps that have a checkpoint: all but 0, with which a run begins that has none yet."""
    return tuple(step for step in steps if step != 0)
