"""A simulated supervisor: sees deaths, tells who lives, starts successors, kills who has not moved for long.

Workers that are lost get no successor. Only what it has seen dead is missing from its roster (I4). With it all others
die, and the run is resumed from the disk (`World._begin`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pool.protocol.identity import COORDINATOR, FEEDER, WORKER, Peer
from pool.protocol.messages import Roster, RosterEntry
from pool.supervisor.failover import still_to_know
from tests.pool.simulation.coordinator import SimCoordinator
from tests.pool.simulation.feeder import SimFeeder
from tests.pool.simulation.process import THE_SUPERVISOR, Process
from tests.pool.simulation.worker import SimWorker

if TYPE_CHECKING:
    from tests.pool.simulation.world import World

PATIENCE = 400  # scheduler steps without a move; then it is killed


class SimSupervisor(Process):
    def __init__(self, world: World) -> None:
        super().__init__(world, THE_SUPERVISOR, 0)
        self._alive: dict[tuple[str, int], Peer] = {}
        self._coordinator = Peer(COORDINATOR)
        self._draining = False
        self._start(self._coordinator)
        self._start(Peer(FEEDER))
        for index in range(world.setup.workers):
            self._start(Peer(WORKER, index))

    def step(self) -> None:
        world = self.world
        if world.setup.drain_at and world.time >= world.setup.drain_at and not self._draining:
            self._draining = True
            self._tell_roster()
        elif world.unseen_deaths:
            self._died(world.unseen_deaths.pop(0))
        elif self._again():
            self._tell_roster()
            for process in list(world.processes.values()):
                if process is not self and process.still(world.time) > PATIENCE:
                    world.seen["killed for not moving"] += 1
                    world.kill(process.peer.place)

    def _died(self, peer: Peer) -> None:
        del self._alive[peer.place]
        self._tell_roster()
        if peer.role == WORKER and peer.index in self.world.setup.lost and peer.incarnation >= self.world.setup.lives:
            self.world.seen["worker left out"] += 1
            return
        successor = Peer(peer.role, peer.index, peer.incarnation + 1)
        if peer.role == COORDINATOR:
            self._coordinator = successor
        if peer.role == COORDINATOR and self.world.setup.one_process:
            del self._alive[WORKER, 0]
            self.world.deaths = list(still_to_know(self.world.deaths, self.world.done))
            self._start(successor)
            self._start(Peer(WORKER, 0, successor.incarnation))
        else:
            self._start(successor)

    def _start(self, peer: Peer) -> None:
        world = self.world
        ready = world.time + int(world.chance() ** 2 * 60)
        process: Process
        if peer.role == COORDINATOR:
            process = SimCoordinator(world, peer, ready, world.what_is_left(), world.deaths)
        elif peer.role == FEEDER:
            process = SimFeeder(world, peer, ready, self._coordinator)
        else:
            process = SimWorker(world, peer, ready, self._coordinator)
        world.processes[peer.place] = process
        self._alive[peer.place] = peer
        self._tell_roster()

    def _tell_roster(self) -> None:
        entries = tuple(RosterEntry(peer.role, peer.index, peer.incarnation, 0) for peer in self._alive.values())
        roster = Roster(entries, self._draining)
        for peer in self._alive.values():
            self.world.network.send(self.peer, peer, roster)
