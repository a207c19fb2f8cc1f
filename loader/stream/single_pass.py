"""Reads the first pass of a stream as one that ends: every sample once, and the remaining samples as a shorter last
batch.

A stream goes on from pass to pass in batches of one size. So the whole batches come from one stream, and the remaining
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
        self._whole, left = divmod(samples, data.config.batch_size)
        data = data.with_settings(shuffle=False, tail="flow")
        self._body = data.open()
        self._rest: Stream | None = None
        if left:
            try:
                self._rest = data.with_settings(batch_size=left).open()
            except BaseException:
                self._body.close()
                raise
        self.schema = self._body.schema
        self._next = 0  # number of the batch that the next given slot is for
        self._slot: int | None = None  # slot for the last, shorter batch, if it has been given
        self._begin: Cursor | None = None  # where the last, shorter batch begins, once it is known
        self._reported: set[tuple[int | None, str]] = set()  # (chunk, kind) of faults that `skipped` has returned
        self._poll = select.epoll()
        for stream in self.streams:
            self._poll.register(stream.fileno(), select.EPOLLIN)

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The stream of whole batches, and that of the remaining samples if there are any."""
        return (self._body,) if self._rest is None else (self._body, self._rest)

    def attach(self, slots: Sequence[Slot]) -> None:
        for stream in self.streams:
            stream.attach(slots)

    def seek(self, cursor: Cursor) -> None:
        for stream in self.streams:  # both, since each may hold slots, which are the caller's again
            stream.seek(cursor)
        self._next, self._slot = cursor.batch, None
        self._begin = cursor if cursor.batch == self._whole else None

    def give(self, slot: int) -> None:
        number, self._next = self._next, self._next + 1
        if number < self._whole:
            self._body.give(slot)
        elif number == self._whole and self._rest is not None:
            self._slot = slot
            self._fill_rest()

    def take(self) -> Filled | None:
        filled = self._body.take()
        if filled is None:
            return None if self._rest is None else self._rest.take()
        if filled.batch == self._whole - 1:
            self._begin = filled.next_cursor
            self._fill_rest()
        return filled

    def skipped(self) -> Sequence[SkippedData]:
        found = [left_out for stream in self.streams for left_out in stream.skipped()]
        new = [left_out for left_out in found if (left_out.chunk, left_out.kind) not in self._reported]
        self._reported.update((left_out.chunk, left_out.kind) for left_out in new)
        return new

    def fileno(self) -> int:
        return self._poll.fileno()

    def close(self) -> None:
        for stream in self.streams:
            stream.close()
        self._poll.close()

    def _fill_rest(self) -> None:
        """Has the second stream fill the last, shorter batch, once its slot and the cursor where it begins are
        known."""
        if self._rest is not None and self._slot is not None and self._begin is not None:
            self._rest.seek(self._begin)
            self._rest.give(self._slot)
            self._slot = None
