"""A simulated supervisor: sees deaths, tells who lives, starts successors, kills who has not moved for long.

Workers that are lost get no successor. Only what it has seen dead is missing from its roster (I4). With it all others
die, and the run is resumed from the disk (`World._begin`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pool.machines.follower import Follower, MachineRefused, RunEnded, StartGeneration, StopGeneration
from pool.machines.leader import Leader
from pool.protocol.identity import COORDINATOR, FEEDER, WORKER, Peer
from pool.protocol.messages import Roster, RosterEntry
from pool.supervisor.failover import relevant_deaths
from tests.pool.simulation.coordinator import SimCoordinator
from tests.pool.simulation.feeder import SimFeeder
from tests.pool.simulation.process import THE_SUPERVISOR, Process
from tests.pool.simulation.worker import SimWorker

if TYPE_CHECKING:
    from tests.pool.simulation.world import World

HEARS_MACHINES = 0.3  # share of its moves in which it listens to the other machines
PATIENCE = 400  # scheduler steps without a move; then it is killed


class SimSupervisor(Process):
    def __init__(self, world: World) -> None:
        super().__init__(world, THE_SUPERVISOR, 0)
        self._alive: dict[tuple[str, int], Peer] = {}
        self._generations = 0  # coordinators that it has begun with other machines
        self._coordinator = Peer(COORDINATOR)
        self._draining = False
        self.follower: Follower | None = None
        self._leader: Leader | None = None
        if world.cluster is None:
            self._start(self._coordinator)
        else:
            life = f"{world.setup.rules.machine}.{world.time}"
            self.follower = Follower(life, life)
            self.follower.report_steps(world.steps_left)
            if world.setup.rules.machine == 0:
                self._leader = Leader(world.setup.rules.machines)
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
        elif self.follower is not None and world.chance() < HEARS_MACHINES:
            self._receive_orders(self.follower)
        elif self._again():
            self._tell_roster()
            for process in list(world.processes.values()):
                if process is not self and process.still(world.time) > PATIENCE:
                    world.seen["killed for not moving"] += 1
                    world.kill(process.peer.role_index)

    def _died(self, peer: Peer) -> None:
        del self._alive[peer.role_index]
        self._tell_roster()
        if self.follower is not None and peer.role == COORDINATOR:
            finished, self.world.finished = self.world.finished, False
            self.follower.report_death(self.world.steps_left, (), finished=finished)
            return
        if peer.role == WORKER and peer.index in self.world.setup.lost and peer.incarnation >= self.world.setup.lives:
            self.world.seen["worker left out"] += 1
            return
        successor = Peer(peer.role, peer.index, peer.incarnation + 1)
        if peer.role == COORDINATOR:
            self._coordinator = successor
        if peer.role == COORDINATOR and self.world.setup.one_process:
            del self._alive[WORKER, 0]
            self.world.deaths = list(relevant_deaths(self.world.deaths, self.world.done))
            self._start(successor)
            self._start(Peer(WORKER, 0, successor.incarnation))
        else:
            self._start(successor)

    def _receive_orders(self, follower: Follower) -> None:
        cluster, machine = self.world.cluster, self.world.setup.rules.machine
        assert cluster is not None
        orders = cluster.hear(self._leader, machine, follower)
        if orders is None:
            if cluster.worlds[0].ended:
                self.world.ended = True  # the first machine has heard that this one has finished, and is gone
                if not follower.report.finished:
                    self.world.seen["begun anew after the end"] += 1
            return
        known = follower.coordinators
        match follower.apply_orders(orders):
            case StartGeneration(generation, step):
                self._begin(generation, step)
            case StopGeneration():
                self.world.seen["generation broken"] += 1
                if (COORDINATOR, 0) in self.world.processes:
                    self.world.kill((COORDINATOR, 0))
            case RunEnded(""):
                self.world.ended = True
            case RunEnded(why) | MachineRefused(why):
                raise AssertionError(why)
        if follower.coordinators != known:
            self._tell_roster()

    def _begin(self, generation: int, step: int) -> None:
        """All machines begin together."""
        assert self.follower is not None
        ready = self.world.time + int(self.world.chance() ** 2 * 60)
        self._generations += 1
        self._coordinator = Peer(COORDINATOR, 0, self._generations)
        left = self.world.left_of(step)
        process = SimCoordinator(self.world, self._coordinator, ready, left, self.world.deaths, generation)
        self.world.processes[self._coordinator.role_index] = process
        self._alive[self._coordinator.role_index] = self._coordinator
        self.follower.report_coordinator(f"{generation}")
        self._tell_roster()

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
        world.processes[peer.role_index] = process
        self._alive[peer.role_index] = peer
        self._tell_roster()

    def _tell_roster(self) -> None:
        entries = tuple(RosterEntry(peer.role, peer.index, peer.incarnation, 0) for peer in self._alive.values())
        machines = () if self.follower is None else self.follower.coordinators
        roster = Roster(entries, self._draining, machines=machines)
        for peer in self._alive.values():
            self.world.network.send(self.peer, peer, roster)
