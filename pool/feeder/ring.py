"""The batches in one ring of slots: which are finished, and which may be made next. Pure: no sockets, no stream.

Batch k goes to slot k mod slots, once the coordinator has freed that slot.
"""

from __future__ import annotations

from dataclasses import dataclass

from loader.stream.interface import Cursor, Filled
from pool.protocol.messages import StreamOrders, StreamReport


@dataclass(frozen=True)
class Fill:
    """What the stream has to do: first seek, if there is a cursor, then make these batches, each in its slot."""

    seek: Cursor | None
    batches: range


class Ring:
    """The feeder's record of one ring."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._generation = -1
        self._first = 0  # the oldest batch that is not freed: it begins at _cursors[0]
        self._cursors: list[Cursor] = []  # where each batch from _first on begins, and the one behind the last
        self._end = 0  # batches below this number have been assigned a slot

    def apply_orders(self, orders: StreamOrders) -> Fill:
        """Frees the slots that the coordinator no longer needs, and returns the batches that may be made in them.

        All batches below `orders.freed` are freed. Orders of a newer generation (of a new feeder, of a new pass) begin
        the ring anew at their cursor. Orders of an older one change nothing.
        """
        if orders.generation < self._generation:
            return Fill(None, range(0))
        seek = None
        if orders.generation > self._generation:
            self._generation = orders.generation
            self._first = self._end = orders.start.batch
            self._cursors = [orders.start]
            seek = orders.start
        # The last cursor is kept: the next batch begins there.
        freed = min(orders.freed - self._first, len(self._cursors) - 1)
        if freed > 0:
            del self._cursors[:freed]
            self._first += freed
        begin, self._end = self._end, max(self._end, orders.freed + self._slots)
        return Fill(seek, range(begin, self._end))

    def slot_of(self, batch: int) -> int:
        """Returns the number of the slot that the batch lies in."""
        return batch % self._slots

    def add_finished(self, filled: Filled) -> None:
        """Notes that the stream has finished its next batch."""
        expected = self._first + len(self._cursors) - 1
        assert filled.batch == expected, f"I1: batch {filled.batch} instead of {expected}"
        assert filled.slot == self.slot_of(filled.batch), f"batch {filled.batch} in slot {filled.slot}"
        self._cursors.append(filled.next_cursor)

    def report(self) -> StreamReport | None:
        """Returns which batches are ready, for the coordinator; None before the first orders."""
        if self._generation < 0:
            return None
        return StreamReport(self._generation, self._first, tuple(self._cursors))
