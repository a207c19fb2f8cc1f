"""Several simulated machines that compute one run: a world each, and the connections between them.

What supervisors say to one another may be lost or late.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import replace
from typing import TYPE_CHECKING

from pool.machines.follower import Follower
from pool.machines.leader import SILENCE_TIMEOUT, Leader
from pool.protocol.messages import MachineOrders, MachineReport
from tests.pool.simulation.links import Links
from tests.pool.simulation.setup import Setup
from tests.pool.simulation.world import World

if TYPE_CHECKING:
    pass

TICKS = 800 / SILENCE_TIMEOUT  # scheduler steps of a machine in a second
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

    def hear(self, leader: Leader | None, machine: int, follower: Follower) -> MachineOrders | None:
        """A supervisor says how its machine is, and hears what it is ordered; that of the first machine has the
        books."""
        now = self.worlds[machine].time / TICKS
        if leader is None:
            self._reports.append((machine, follower.report))
            orders = self._orders[machine]
            return orders.popleft() if orders and self._arrives else None
        while self._reports:
            other, report = self._reports.popleft()
            if self._arrives:
                leader.receive_report(other, report, now)
                leader.update(now)
                self._orders[other] = deque([leader.orders_for(other, report, now)])
        leader.receive_report(0, follower.report, now)
        leader.update(now)
        return leader.orders_for(0, follower.report, now)

    @property
    def _arrives(self) -> bool:
        return self._draw.random() >= self._loss
