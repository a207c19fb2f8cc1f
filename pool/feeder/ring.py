"""The feeder's state of one ring. Pure: no sockets, no stream.

Batch k goes to slot k mod slots, when the coordinator has freed that slot.
"""

from __future__ import annotations

from dataclasses import dataclass

from loader.stream.interface import Cursor, Filled
from pool.protocol.messages import StreamOrders, StreamReport


@dataclass(frozen=True)
class Fill:
    """Orders for the stream: first seek, if a cursor is given, then make these batches, each in its slot."""

    seek: Cursor | None
    batches: range


class Ring:
    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._generation = -1
        self._first = 0  # batch that _cursors[0] is the beginning of
        self._cursors: list[Cursor] = []
        self._given = 0  # batches below this have been given a slot

    def orders(self, orders: StreamOrders) -> Fill:
        """Orders of an older generation than the present one change nothing."""
        if orders.generation < self._generation:
            return Fill(None, range(0))
        seek = None
        if orders.generation > self._generation:
            self._generation = orders.generation
            self._first = self._given = orders.start.batch
            self._cursors = [orders.start]
            seek = orders.start
        done = min(orders.freed - self._first, len(self._cursors) - 1)
        if done > 0:
            del self._cursors[:done]
            self._first += done
        begin, self._given = self._given, max(self._given, orders.freed + self._slots)
        return Fill(seek, range(begin, self._given))

    def slot_of(self, batch: int) -> int:
        """Returns where the batch lies."""
        return batch % self._slots

    def filled(self, filled: Filled) -> None:
        """The stream finished a batch."""
        expected = self._first + len(self._cursors) - 1
        assert filled.batch == expected, f"I1: batch {filled.batch} instead of {expected}"
        assert filled.slot == self.slot_of(filled.batch), f"batch {filled.batch} in slot {filled.slot}"
        self._cursors.append(filled.next_cursor)

    def report(self) -> StreamReport | None:
        """All that lies ready; None before the first orders."""
        if self._generation < 0:
            return None
        return StreamReport(self._generation, self._first, tuple(self._cursors))
