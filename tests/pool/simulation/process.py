"""What all simulated processes have in common: a life, in which they may be frozen, and two sockets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from pool.protocol.admission import Admission, next_incarnation
from pool.protocol.identity import COORDINATOR, SUPERVISOR, Peer
from pool.protocol.messages import Message, Roster

if TYPE_CHECKING:
    from tests.pool.simulation.world import World

AGAIN = 60  # scheduler steps after which all is said again
THE_SUPERVISOR = Peer(SUPERVISOR)


class Process(ABC):
    def __init__(self, world: World, peer: Peer, ready: int) -> None:
        """`ready`: scheduler step at which it does the first thing."""
        self.world = world
        self.peer = peer
        self.asleep_until = ready
        self.moved_at = ready
        self._again_at = ready + AGAIN

    @abstractmethod
    def step(self) -> None:
        """One thing it can do, up to the next point at which it may be killed."""

    def die(self) -> None:  # noqa: B027
        """What others see in memory of its death."""

    def still(self, now: int) -> int:
        """How long it has not moved."""
        return now - self.moved_at

    def _again(self) -> bool:
        if self.world.time < self._again_at or self.world.setup.says_once:
            return False
        self._again_at = self.world.time + AGAIN
        return True


class Child(Process):
    """A worker or the feeder: linked to the supervisor, and to one coordinator after the other."""

    def __init__(self, world: World, peer: Peer, ready: int, coordinator: Peer) -> None:
        super().__init__(world, peer, ready)
        self.coordinator = coordinator
        self._from_supervisor = Admission(peer, (THE_SUPERVISOR,))
        self._from_coordinator = Admission(peer, (coordinator,))

    def follow(self) -> bool:
        """Hears the supervisor; True if the coordinator has a successor."""
        envelope = self.world.network.receive(self.peer.role_index, from_supervisor=True)
        if envelope is None or self._from_supervisor.refusal(envelope):
            return False
        assert isinstance(envelope.message, Roster)
        successor = next_incarnation(self.coordinator, envelope.message)
        if successor is None:
            return False
        assert successor.role == COORDINATOR
        self.coordinator = successor
        self._from_coordinator.set_alive((successor,))
        return True

    def hear(self) -> Message | None:
        """The next message of the coordinator, if one counts."""
        envelope = self.world.network.receive(self.peer.role_index, from_supervisor=False)
        if envelope is None:
            return None
        if self._from_coordinator.refusal(envelope):
            self.world.seen["order refused"] += 1
            return None
        return envelope.message

    def tell(self, message: Message) -> None:
        self.world.network.send(self.peer, self.coordinator, message)
