"""The state of one ring of batch slots in shared memory: which batches are ready, which slots are free. Pure: no
sockets, no memory.

A ring is a queue. Batch k lies in slot k mod slots. Batches are filled and freed in order, so two numbers are the whole
state: batches below `freed` are not needed any more, batches below `filled` are ready.
"""

from __future__ import annotations

from loader.stream.interface import Cursor
from pool.protocol.messages import StreamOrders, StreamReport


class RingState:
    """The coordinator's record of one ring. A generation is a pass of one feeder over the stream; its number rises with
    each."""

    def __init__(self, start: Cursor, generation: int) -> None:
        self.generation = generation
        self.start = start
        self.freed = start.batch
        self.filled = start.batch
        self._cursors = {start.batch: start}

    def cursor(self, batch: int) -> Cursor:
        """Returns where in the data stream a batch begins. The batch must be in freed .. filled."""
        return self._cursors[batch]

    def add_filled(self, report: StreamReport | None) -> None:
        """Records which batches the feeder has filled. Old reports, and those of an earlier generation (pass of a
        feeder over the stream), change nothing."""
        if report is None or report.generation != self.generation:
            return
        for batch, cursor in enumerate(report.cursors, start=report.first):
            if batch > self.filled:
                self._cursors[batch] = cursor
        self.filled = max(self.filled, report.first + len(report.cursors) - 1)

    def free_below(self, batch: int) -> None:
        """Frees the ring slots of all batches below `batch`."""
        assert self.freed <= batch <= self.filled, f"I3: free {self.freed} -> {batch} of {self.filled}"
        self.freed = batch
        self._cursors = {number: cursor for number, cursor in self._cursors.items() if number >= batch}

    def restart_feeder(self) -> None:
        """Starts a new generation after the feeder's death: batches that the feeder had reported stay ready, and its
        successor continues with the next one."""
        self.generation += 1
        self.start = self._cursors[self.filled]

    def rewind(self, start: Cursor) -> None:
        """Starts a new pass over the stream, from `start`. No batch of the old pass may still be in use."""
        self.generation += 1
        self.start = start
        self.freed = self.filled = start.batch
        self._cursors = {start.batch: start}

    def stream_orders(self) -> StreamOrders:
        """Returns the orders for the feeder: where in the data stream to begin, and which batches are not needed any
        more."""
        return StreamOrders(self.generation, self.start, self.freed)
