"""Takes a stream's batches one after the other, without end: for those who read in one thread and in order."""

from __future__ import annotations

import select
from collections.abc import Iterator

from loader.slots import Slot, allocate_slots
from loader.stream import Cursor, Filled, Stream

NUM_SLOTS = 8


def take_each(stream: Stream, begin: Cursor | None = None) -> Iterator[tuple[Filled, Slot]]:
    """Each finished batch and its slot, valid until the next is asked for. `stream` must be new. Raises DataError."""
    slots = allocate_slots(stream.schema, NUM_SLOTS)
    stream.attach(slots)
    if begin is not None:
        stream.seek(begin)
    for slot in range(NUM_SLOTS):
        stream.give(slot)
    poll = select.poll()
    poll.register(stream.fileno(), select.POLLIN)
    while True:
        while (filled := stream.take()) is None:
            poll.poll()
        yield filled, slots[filled.slot]
        stream.give(filled.slot)
