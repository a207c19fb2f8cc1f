"""One seeded scheduler under which the processes of a run move, die, freeze and come back.

A step of the scheduler lets one process do one thing. Who is frozen does nothing until it wakes or is killed; what it
owns stays its own until then.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

from pool.checkpoint.validations import NONE
from pool.protocol.blame import DeathInBatch
from pool.protocol.identity import COORDINATOR, SUPERVISOR, WORKER, Peer
from tests.pool.simulation.arithmetic import cursor_of, first_version
from tests.pool.simulation.coordinator import Saved
from tests.pool.simulation.history import History
from tests.pool.simulation.memory import Memory
from tests.pool.simulation.network import Network, Place
from tests.pool.simulation.process import Process
from tests.pool.simulation.setup import Setup
from tests.pool.simulation.supervisor import PATIENCE, SimSupervisor
from tests.pool.simulation.worker import SimWorker

if TYPE_CHECKING:
    from tests.pool.simulation.cluster import Cluster

LIMIT = 60_000  # steps of the scheduler; a run that is not over by then would never be
CALM = 250  # mean steps between disasters


class World:
    """`run` raises AssertionError at the first thing that must not be."""

    def __init__(self, setup: Setup, seed: int, cluster: Cluster | None = None) -> None:
        """`cluster`: the other machines of the run, None: there are none."""
        self.setup = setup
        self.cluster = cluster
        self._random = random.Random(seed)
        self.chance = self._random.random
        self.time = 0  # steps of the scheduler
        self.ended = False
        self.finished = False  # the coordinator has ended because nothing is left to do
        self.seen: Counter[str] = Counter()  # what has happened, for who wants to know what was tested
        self.history = History(setup)
        self._checkpoints = [Saved(0, cursor_of(0), first_version(setup), NONE)]
        self._disasters_left = setup.disasters
        self._next_disaster = self._some_calm()
        self._begin()
        self._turns = list(self.processes)  # who may move; the coordinator's turn comes more often
        self._turns += [(COORDINATOR, 0)] * (len(self._turns) - 1)

    def _begin(self) -> None:
        """A supervisor starts, and with it all others. Only checkpoints and metrics are older than it."""
        self.memory = Memory(self.setup)
        self.network = Network(self._random, self.setup.loss)
        self.processes: dict[Place, Process] = {}
        self.unseen_deaths: list[Peer] = []
        self._snapshots: list[Saved] = []
        self.deaths: list[DeathInBatch] = []  # of the worker in the coordinator's process
        self.done = 0  # steps that the supervisor has heard of
        self.processes[SUPERVISOR, 0] = SimSupervisor(self)

    def run(self) -> None:
        while not self.ended:
            self.tick()
        self.history.ended()

    def tick(self) -> None:
        """One step of the scheduler."""
        turns = self._turns
        self.time += 1
        if self.time >= self._next_disaster and self._disasters_left:
            self._disaster()
        process = self.processes.get(turns[int(self.chance() * len(turns))])
        if process is not None and process.asleep_until <= self.time:
            process.moved_at = self.time
            process.step()
        assert self.time < LIMIT, f"not ended after {LIMIT} steps of the scheduler"

    def workers(self) -> list[SimWorker]:
        return [process for process in self.processes.values() if isinstance(process, SimWorker)]

    # --- disasters ---

    def kill(self, place: Place) -> None:
        """From now on the process does nothing any more; the supervisor will see it."""
        both = ((COORDINATOR, 0), (WORKER, 0))
        together = both if self.setup.one_process and place in both else (place,)
        self.unseen_deaths.append(self.processes[together[0]].peer)
        for each in together:
            process = self.processes.pop(each)
            process.die()
            self.network.cut(each)
            self.seen[f"{process.peer.role} died"] += 1
        if len(together) > 1:
            self.seen["worker died with the coordinator"] += 1

    def _some_calm(self) -> int:
        """Until when; seldom comes a disaster alone."""
        return self.time + 1 + int(self._random.expovariate(1 / CALM if self.chance() < 0.7 else 1.0))

    def _disaster(self) -> None:
        self._disasters_left -= 1
        self._next_disaster = self._some_calm()
        process = self.processes[self._random.choice(sorted(self.processes))]
        role = process.peer.role
        if self.chance() < 0.6:
            if role != SUPERVISOR:
                self.kill(process.peer.role_index)
            elif self.chance() < 0.5:
                self.seen["supervisor died"] += 1
                self._begin()
            return
        wakes = self.time + int(self.chance() * 2 * PATIENCE)
        if isinstance(process, SimWorker) and self.chance() < 0.5:
            process.computing_asleep_until = wakes
            self.seen["worker hung"] += 1
        else:
            process.asleep_until = wakes
            self.seen[f"{role} froze"] += 1

    # --- what outlives a coordinator ---

    def save(self, saved: Saved) -> None:
        """Snapshots are in memory, two of them; checkpoints are on the disk."""
        if saved.step % self.setup.snapshot_every == 0:
            self._snapshots = [*self._snapshots[-1:], saved]
        if saved.step % self.setup.checkpoint_every == 0:
            self._checkpoints.append(saved)

    @property
    def steps_left(self) -> list[int]:
        """Those that a coordinator could begin with."""
        return sorted({saved.step for saved in (*self._checkpoints, *self._snapshots)})

    def left_of(self, step: int) -> Saved:
        """What a coordinator begins with that several machines have agreed on."""
        left = [saved for saved in (*self._checkpoints, *self._snapshots) if saved.step == step]
        self._snapshots = [saved for saved in self._snapshots if saved.step <= step]
        self._checkpoints = [saved for saved in self._checkpoints if saved.step <= step]
        return left[0]

    def what_is_left(self) -> Saved:
        """What a coordinator begins with: the newest, or, when that is damaged, any that is older."""
        left = [*self._checkpoints, *self._snapshots]
        if self.chance() < 0.6:
            left = [self._random.choice(left)]
        newest = max(left, key=lambda saved: saved.step)
        self._snapshots = [saved for saved in self._snapshots if saved.step <= newest.step]
        self._checkpoints = [saved for saved in self._checkpoints if saved.step <= newest.step]
        return newest
