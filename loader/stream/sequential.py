"""Every sample of the files once, in their order, in batches of which the last may be shorter.

A stream has no end, fills its last batch of a pass from the next one, and orders the samples of a batch by output
bucket, otherwise as they came. So what is left behind the whole batches is the only batch of another stream, and a
third one, whose batches are one sample, tells how many are left and which bucket each sample goes to.
"""

from __future__ import annotations

import itertools
import select
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from loader.stream.data import Data
from loader.stream.interface import Cursor, Filled, Stream
from loader.stream.schema import BUCKET_OFFSETS, BatchSchema, SparseBatch
from loader.stream.slots import Slot, allocate_slots

NUM_SLOTS = 8  # batches made ahead
SINGLES = 512  # batches of one sample made ahead

Order = npt.NDArray[np.int64]  # [batch]: order[j] is the place, in the files' order, of the batch's sample j


def batches_in_order(data: Data) -> Iterator[tuple[SparseBatch, Order]]:
    """Yields batches, each valid until the next is asked for. batch_size is the longest batch; shuffle, tail and
    validation_share do not count.

    Raises DataError, ValueError for settings that the source can't serve.
    """
    data = data.with_settings(shuffle=False, tail="flow", validation_share=0.0)
    schema = data.schema()
    with closing(_orders(schema, data)) as orders:
        begin = yield from _whole_batches(data, orders)
    if begin.epoch == 0:
        yield from _read_rest(data, replace(begin, batch=0))


def _orders(schema: BatchSchema, data: Data) -> Generator[Order, None, None]:
    """Yields the orders of one whole batch after the other."""
    if schema.num_buckets == 1:
        while True:
            yield np.arange(schema.batch_size)
    with closing(data.with_settings(batch_size=1).open()) as stream:
        singles = _take_each(stream, num_slots=SINGLES)
        while True:
            yield _sample_order(stream.schema, (slot for _, slot in itertools.islice(singles, schema.batch_size)))


def _sample_order(schema: BatchSchema, slots: Iterable[Slot]) -> Order:
    """Returns the order that a batch gives to these samples, which come one in each slot. `schema`: of a slot."""
    region = schema.regions[BUCKET_OFFSETS]
    array = slice(region.offset, region.offset + region.count * region.dtype.itemsize)
    offsets = np.frombuffer(b"".join(slot[array].tobytes() for slot in slots), region.dtype)
    buckets = np.count_nonzero(offsets.reshape(-1, region.count) == 0, axis=1)  # each plus 1
    return np.argsort(buckets, kind="stable")


def _whole_batches(data: Data, orders: Iterator[Order]) -> Generator[tuple[SparseBatch, Order], None, Cursor]:
    """Yields the whole batches of the first pass; returns where the rest begins, which is in the next pass if there is
    none."""
    with closing(data.open()) as stream:
        for filled, slot in _take_each(stream):
            if not _ends_in_first_pass(filled):
                return filled.cursor
            yield SparseBatch.view(stream.schema, slot), next(orders)
    raise AssertionError("a stream has no end")


def _read_rest(data: Data, begin: Cursor) -> Iterator[tuple[SparseBatch, Order]]:
    """Yields the samples from `begin` to the end of the pass as one batch, if there are any."""
    with closing(data.with_settings(batch_size=1).open()) as stream:
        singles = itertools.takewhile(lambda taken: _ends_in_first_pass(taken[0]), _take_each(stream, begin, SINGLES))
        order = _sample_order(stream.schema, (slot for _, slot in singles))
    if not order.size:  # the last windows of the pass are empty
        return
    with closing(data.with_settings(batch_size=len(order)).open()) as stream:
        _, slot = next(_take_each(stream, begin, num_slots=1))
        yield SparseBatch.view(stream.schema, slot), order


def _ends_in_first_pass(filled: Filled) -> bool:
    """Tells whether the batch has no sample of the second pass. Where it begins does not: behind the last sample of a
    pass there may be windows without any."""
    end = filled.next_cursor
    return end.epoch == 0 or end == Cursor(end.batch, epoch=1)


def _take_each(
    stream: Stream, begin: Cursor | None = None, num_slots: int = NUM_SLOTS
) -> Iterator[tuple[Filled, Slot]]:
    """Each finished batch and its slot, valid until the next is asked for. `stream` must be new. Raises DataError."""
    slots = allocate_slots(stream.schema, num_slots)
    stream.attach(slots)
    if begin is not None:
        stream.seek(begin)
    for slot in range(num_slots):
        stream.give(slot)
    poll = select.poll()
    poll.register(stream.fileno(), select.POLLIN)
    while True:
        while (filled := stream.take()) is None:
            poll.poll()
        yield filled, slots[filled.slot]
        stream.give(filled.slot)
