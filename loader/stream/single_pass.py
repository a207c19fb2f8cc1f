"""Reads the first pass of a stream as one that ends: every sample once, and the remaining samples as a shorter last
batch.

A stream goes on from pass to pass in batches of one size. So the full batches come from one stream, and the remaining
samples are the only batch of a second stream, whose batch_size is their number. That batch is laid out in its slot as
the schema of the smaller batch_size says. Both streams read in the order of the files, so the second can begin where
the first has ended.
"""

from __future__ import annotations

import select
from collections.abc import Sequence

from loader.stream.data import Data
from loader.stream.interface import Cursor, Filled, Stream
from loader.stream.skipped_data import SkippedData
from loader.stream.slots import Slot


class SinglePass:
    """A `loader.stream.interface.Stream` of one pass over validation samples. Slots that are given after the last batch
    stay empty until the next seek."""

    def __init__(self, data: Data, samples: int) -> None:
        """Opens the streams. `samples`: number of samples in a pass (`Data.count_samples`). Raises as `Data.open`."""
        self._num_full_batches, num_remaining = divmod(samples, data.config.batch_size)
        data = data.with_settings(shuffle=False, tail="flow")
        self._full_stream = data.open()
        self._last_stream: Stream | None = None
        if num_remaining:
            try:
                self._last_stream = data.with_settings(batch_size=num_remaining).open()
            except BaseException:
                self._full_stream.close()
                raise
        self.schema = self._full_stream.schema
        self._next_batch = 0  # number of the batch that the next given slot is for
        self._last_slot: int | None = None  # slot for the last, shorter batch, if it has been given
        self._last_cursor: Cursor | None = None  # where the last, shorter batch begins, once that has been read
        self._reported: set[tuple[int | None, str]] = set()  # (chunk, kind) of faults that `skipped` has returned
        self._poll = select.epoll()
        for stream in self.streams:
            self._poll.register(stream.fileno(), select.EPOLLIN)

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The stream of full batches, and the stream of the remaining samples if there are any."""
        if self._last_stream is None:
            return (self._full_stream,)
        return self._full_stream, self._last_stream

    def attach(self, slots: Sequence[Slot]) -> None:
        for stream in self.streams:
            stream.attach(slots)

    def seek(self, cursor: Cursor) -> None:
        for stream in self.streams:  # both, since each may hold slots, which are the caller's again
            stream.seek(cursor)
        self._next_batch = cursor.batch
        self._last_slot = None
        self._last_cursor = cursor if cursor.batch == self._num_full_batches else None

    def give(self, slot: int) -> None:
        batch = self._next_batch
        self._next_batch += 1
        if batch < self._num_full_batches:
            self._full_stream.give(slot)
        elif batch == self._num_full_batches and self._last_stream is not None:
            self._last_slot = slot
            self._fill_last_batch()

    def take(self) -> Filled | None:
        filled = self._full_stream.take()
        if filled is None:
            return None if self._last_stream is None else self._last_stream.take()
        if filled.batch == self._num_full_batches - 1:
            self._last_cursor = filled.next_cursor
            self._fill_last_batch()
        return filled

    def skipped(self) -> Sequence[SkippedData]:
        unreported = []
        for stream in self.streams:
            for data in stream.skipped():
                if (data.chunk, data.kind) not in self._reported:
                    unreported.append(data)
        self._reported.update((data.chunk, data.kind) for data in unreported)
        return unreported

    def fileno(self) -> int:
        return self._poll.fileno()

    def close(self) -> None:
        for stream in self.streams:
            stream.close()
        self._poll.close()

    def _fill_last_batch(self) -> None:
        """Starts filling the last, shorter batch as soon as its slot and its cursor are there."""
        if self._last_stream is not None and self._last_slot is not None and self._last_cursor is not None:
            self._last_stream.seek(self._last_cursor)
            self._last_stream.give(self._last_slot)
            self._last_slot = None
