"""The connections between the coordinators of several simulated machines.

Between two of them messages come in their order; a connection may break, and then what its sender keeps comes once
more.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pool.protocol.messages import BucketSums, ShareReport

if TYPE_CHECKING:
    from tests.pool.simulation.world import World


@dataclass(frozen=True)
class Node:
    """A sum, at its leaf of the tree."""

    leaf: int
    total: int


@dataclass(frozen=True)
class Said:
    message: ShareReport | BucketSums
    nodes: Sequence[Node] = ()  # of the bucket
    buffers: Sequence[int] = ()  # of all members


class Links:
    """What coordinators of one generation have said to one another."""

    def __init__(self, machines: int) -> None:
        self._machines = range(machines)
        self._kept: dict[tuple[int, int], list[tuple[int, Said]]] = {}  # by generation and sender; with its step
        self._waiting: dict[tuple[int, int, int], deque[Said]] = {}  # by generation, sender, addressee

    def keep(self, generation: int, machine: int, step: int, said: Said) -> None:
        self._kept.setdefault((generation, machine), []).append((step, said))
        for other in self._machines:
            if other != machine:
                self._waiting.setdefault((generation, machine, other), deque()).append(said)

    def forget(self, generation: int, machine: int, before: int) -> None:
        kept = self._kept.get((generation, machine), [])
        self._kept[generation, machine] = [each for each in kept if each[0] >= before]

    def receive(self, generation: int, machine: int) -> Iterator[tuple[int, Said]]:
        for other in self._machines:
            waiting = self._waiting.get((generation, other, machine))
            while waiting:
                yield other, waiting.popleft()

    def die(self, generation: int, machine: int, draw: random.Random) -> None:
        """A coordinator is dead: the last that it has said is lost, and it repeats nothing."""
        self._kept.pop((generation, machine), None)
        for (of, sender, _), waiting in self._waiting.items():
            if (of, sender) == (generation, machine):
                for _ in range(draw.randint(0, len(waiting))):
                    waiting.pop()

    def break_one(self, draw: random.Random) -> None:
        """What is on its way is lost, and what is kept comes again."""
        if self._waiting:
            generation, sender, addressee = draw.choice(sorted(self._waiting))
            kept = self._kept.get((generation, sender), [])
            self._waiting[generation, sender, addressee] = deque(said for _, said in kept)


class Others:
    """A coordinator's end, as `pool.coordinator.other_machines` has it."""

    def __init__(self, world: World, generation: int) -> None:
        self.world = world
        self._generation = generation
        self._machine = world.setup.rules.machine
        self._at = dict.fromkeys(world.setup.rules.remote_shares, -1)
        self._end = -1
        self.finished: set[int] = set()  # others that have ended, as the supervisor says
        self.sums: dict[tuple[int, int], dict[int, Sequence[Node]]] = {}  # by step and machine, of each bucket
        self.buffers: dict[tuple[int, int], Sequence[int]] = {}

    def die(self) -> None:
        """Its coordinator is dead."""
        if self.world.cluster is not None:
            self.world.cluster.die(self._generation, self._machine)

    def announce(self, report: ShareReport, buffers: Sequence[int]) -> None:
        first = 0 in self.world.setup.rules.share
        self._keep(report.step, Said(report, buffers=tuple(buffers) if first else ()))

    def send(self, step: int, bucket: int, nodes: Sequence[Node]) -> None:
        self._keep(step, Said(BucketSums(step, bucket, ()), nodes=tuple(nodes)))

    def committed(self, step: int) -> None:
        if self.world.cluster is not None:
            self.world.cluster.links.forget(self._generation, self._machine, step)
            self.sums = {key: sums for key, sums in self.sums.items() if key[0] > step}
            self.buffers = {key: buffers for key, buffers in self.buffers.items() if key[0] > step}

    def all_end(self, step: int) -> bool:
        if self._end != step:
            self._end = step
            self._keep(step, Said(ShareReport(step, ())))
        return all(reached >= step or machine in self.finished for machine, reached in self._at.items())

    def receive(self, step: int) -> Iterator[tuple[int, ShareReport | BucketSums]]:
        assert self.world.cluster is not None
        for machine, said in self.world.cluster.links.receive(self._generation, self._machine):
            message = said.message
            if not step <= message.step <= step + 1:
                continue
            self._at[machine] = max(self._at[machine], message.step)
            if isinstance(message, BucketSums):
                self.sums.setdefault((message.step, machine), {})[message.bucket] = said.nodes
            elif said.buffers:
                self.buffers[message.step, machine] = said.buffers
            yield machine, message

    def _keep(self, step: int, said: Said) -> None:
        assert self.world.cluster is not None
        self.world.cluster.links.keep(self._generation, self._machine, step, said)
