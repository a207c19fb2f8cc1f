"""A simulated feeder: the real scheduler of two rings, and streams that write one slot after the other."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from loader.stream.interface import Filled
from pool.feeder.ring import Ring
from pool.protocol.identity import Peer
from pool.protocol.messages import FeederOrders, FeederReport, Purpose, StreamOrders
from tests.pool.simulation.arithmetic import content, cursor_of
from tests.pool.simulation.memory import TORN
from tests.pool.simulation.process import Child
from tests.pool.simulation.setup import VALIDATION_SLOTS

if TYPE_CHECKING:
    from tests.pool.simulation.world import World


class SimStream:
    """One ring, written by steps: a batch that is begun is in nobody's hands until it is complete."""

    def __init__(self, world: World, purpose: Purpose, slots: int) -> None:
        self._memory = world.memory
        self._rules = world.setup.rules
        self._purpose = purpose
        self.ring = Ring(slots)
        self._given: deque[int] = deque()
        self._next = cursor_of(0)
        self._writing = False

    def orders(self, orders: StreamOrders) -> None:
        fill = self.ring.apply_orders(orders)
        if fill.seek is not None:
            self._given.clear()
            self._writing = False
            self._next = fill.seek
        self._given.extend(map(self.ring.slot_of, fill.batches))

    def step(self) -> bool:
        """True if a batch is complete."""
        if not self._given:
            return False
        if not self._writing:
            self._writing = True
            self._memory.begin_batch(self._purpose, self._given[0])
            return False
        self._writing = False
        slot = self._given.popleft()
        self._memory.end_batch(self._purpose, slot, content(self._next) if self._is_made(self._next.batch) else TORN)
        following = cursor_of(self._next.batch + 1)
        begin = self._next
        self._next = following
        self.ring.add_finished(Filled(slot, begin.batch, begin, following))
        return True

    def _is_made(self, batch: int) -> bool:
        """Other machines' batches are passed over."""
        return self._purpose == "validate" or self._rules.groups.group_index(batch) in self._rules.share


class SimFeeder(Child):
    def __init__(self, world: World, peer: Peer, ready: int, coordinator: Peer) -> None:
        super().__init__(world, peer, ready, coordinator)
        self._train = SimStream(world, "train", world.setup.ring_slots)
        self._validation = SimStream(world, "validate", VALIDATION_SLOTS)
        self._news = True  # say hello

    def step(self) -> None:
        if self.world.chance() < 0.5:
            self._news |= self._train.step() or self._validation.step()
        elif self.follow():
            self._news = True
        elif (message := self.hear()) is not None:
            assert isinstance(message, FeederOrders)
            self._train.orders(message.train)
            if message.validation is not None:
                self._validation.orders(message.validation)
        if self._news or self._again():
            self._news = False
            self.tell(FeederReport(self._train.ring.report(), self._validation.ring.report()))
