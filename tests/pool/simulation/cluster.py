"""Several simulated machines that compute one run: a world each, and the connections between them.

What supervisors say to one another may be lost or late.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import replace
from typing import TYPE_CHECKING

from pool.machines.chair import PATIENCE, Chair
from pool.machines.member import Member
from pool.protocol.messages import MachineOrders, MachineReport
from tests.pool.simulation.links import Links
from tests.pool.simulation.setup import Setup
from tests.pool.simulation.world import World

if TYPE_CHECKING:
    pass

TICKS = 800 / PATIENCE  # scheduler steps of a machine in a second
BROKEN = 0.002  # share of a coordinator's moves in which a connection breaks and is made anew


class Cluster:
    """`run` raises AssertionError at the first thing that must not be on any machine."""

    def __init__(self, setup: Setup, seed: int, machines: int) -> None:
        self._draw = random.Random(seed)
        self.ended = False  # a bad batch has ended the run, on all machines
        self._reports: deque[tuple[int, MachineReport]] = deque()  # on their way to the first machine
        self._orders: list[deque[MachineOrders]] = [deque() for _ in range(machines)]
        self._loss = setup.loss
        self.links = Links(machines)
        rules = setup.rules
        setups = [
            replace(setup, rules=replace(rules, machines=machines, machine=m), one_process=False)
            for m in range(machines)
        ]
        self.worlds = [World(own, self._draw.randrange(1 << 30), self) for own in setups]

    def run(self) -> None:
        draw = self._draw
        while not self.ended and not all(world.ended for world in self.worlds):
            world = draw.choice(self.worlds)
            if not world.ended:
                world.tick()
            if self._loss and draw.random() < BROKEN:  # else a message comes once, and has to do
                self.links.break_one(draw)
        for world in self.worlds:
            if not self.ended:
                world.history.ended()

    @property
    def seen(self) -> Counter[str]:
        return sum((world.seen for world in self.worlds), Counter())

    def die(self, generation: int, machine: int) -> None:
        """A coordinator is dead."""
        self.links.die(generation, machine, self._draw)

    # --- supervisors ---

    def hear(self, chair: Chair | None, machine: int, member: Member) -> MachineOrders | None:
        """A supervisor says how its machine is, and hears what it is ordered; that of the first machine has the
        books."""
        now = self.worlds[machine].time / TICKS
        if chair is None:
            self._reports.append((machine, member.report))
            orders = self._orders[machine]
            return orders.popleft() if orders and self._arrives else None
        while self._reports:
            other, report = self._reports.popleft()
            if self._arrives:
                chair.hear(other, report, now)
                chair.look(now)
                self._orders[other] = deque([chair.orders(other, report, now)])
        chair.hear(0, member.report, now)
        chair.look(now)
        return chair.orders(0, member.report, now)

    @property
    def _arrives(self) -> bool:
        return self._draw.random() >= self._loss
