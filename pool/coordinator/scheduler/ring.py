"""The state of one ring of batch slots: what is filled, what is free. Pure: no sockets, no memory.

A ring is a queue: batch k lies in slot k mod slots, batches are filled and freed in order. Two numbers are its whole
state: batches below `freed` are done, batches below `filled` are ready.
"""

from __future__ import annotations

from loader.stream.interface import Cursor
from pool.protocol.messages import StreamOrders, StreamReport


class RingBook:
    def __init__(self, start: Cursor, generation: int) -> None:
        self.generation = generation
        self.start = start
        self.freed = start.batch
        self.filled = start.batch
        self._cursors = {start.batch: start}

    def cursor(self, batch: int) -> Cursor:
        """Returns the place where a batch in freed .. filled begins."""
        return self._cursors[batch]

    def report(self, report: StreamReport | None) -> None:
        """Notes which batches are ready. Old reports, and those of an earlier generation, change nothing."""
        if report is None or report.generation != self.generation:
            return
        for i, cursor in enumerate(report.cursors):
            if report.first + i > self.filled:
                self._cursors[report.first + i] = cursor
        self.filled = max(self.filled, report.first + len(report.cursors) - 1)

    def free(self, batch: int) -> None:
        """Batches below `batch` are done with."""
        assert self.freed <= batch <= self.filled, f"I3: free {self.freed} -> {batch} of {self.filled}"
        self.freed = batch
        for old in [number for number in self._cursors if number < batch]:
            del self._cursors[old]

    def restart(self) -> None:
        """The feeder died: batches that it announced stay ready, its successor continues with the next one."""
        self.generation += 1
        self.start = self._cursors[self.filled]

    def rewind(self, start: Cursor) -> None:
        """A new pass over the stream, from `start`; no batch of the old pass may still be in use."""
        self.generation += 1
        self.start = start
        self.freed = self.filled = start.batch
        self._cursors = {start.batch: start}

    def orders(self) -> StreamOrders:
        return StreamOrders(self.generation, self.start, self.freed)
