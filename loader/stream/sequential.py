"""Every sample of the files once, in their order, in batches of which the last may be shorter.

A stream has no end, fills its last batch of a pass from the next one, and orders the samples of a batch by output
bucket, otherwise as they came. Which bucket each sample goes to is asked of a second stream, whose batches are one
sample. What can't be read in whole batches is read one sample at a time and put together here.
"""

from __future__ import annotations

import itertools
import select
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from loader.stream.data import Data
from loader.stream.interface import Cursor, Filled, Stream
from loader.stream.schema import BUCKET_OFFSETS, BatchSchema, SparseBatch
from loader.stream.slots import Slot, allocate_slots, write_batch

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
        yield from _put_together(schema, data, begin)


def _orders(schema: BatchSchema, data: Data) -> Generator[Order, None, None]:
    """Yields the orders of one whole batch after the other."""
    if schema.num_buckets == 1:
        while True:
            yield np.arange(schema.batch_size)
    with closing(data.with_settings(batch_size=1).open()) as stream:
        region, singles = stream.schema.regions[BUCKET_OFFSETS], _take_each(stream, num_slots=SINGLES)
        place = slice(region.offset, region.offset + region.count * region.dtype.itemsize)
        while True:
            taken = b"".join(slot[place].tobytes() for _, slot in itertools.islice(singles, schema.batch_size))
            offsets = np.frombuffer(taken, region.dtype).reshape(schema.batch_size, region.count)
            yield np.argsort(np.count_nonzero(offsets == 0, axis=1), kind="stable")  # a sample's bucket, plus 1


def _whole_batches(data: Data, orders: Iterator[Order]) -> Generator[tuple[SparseBatch, Order], None, Cursor]:
    """Yields the whole batches of the first pass; returns where the rest begins, which is in the next pass if there is
    none."""
    with closing(data.open()) as stream:
        for filled, slot in _take_each(stream):
            then = filled.next_cursor
            if filled.cursor.epoch > 0 or (then.epoch > 0 and then != Cursor(then.batch, 1)):
                return filled.cursor
            yield SparseBatch.view(stream.schema, slot), next(orders)
    raise AssertionError("a stream has no end")


def _put_together(schema: BatchSchema, data: Data, begin: Cursor) -> Iterator[tuple[SparseBatch, Order]]:
    """Yields batches of samples that are read one at a time."""
    (slot,) = allocate_slots(schema, 1)
    singles: list[SparseBatch] = []
    with closing(data.with_settings(batch_size=1).open()) as stream:
        for filled, single in _take_each(stream, replace(begin, batch=0)):
            if filled.cursor.epoch > 0:
                break
            singles.append(SparseBatch.view(stream.schema, single).copy())
            if len(singles) == schema.batch_size:
                yield _joined(schema, slot, singles)
                singles = []
    if singles:
        yield _joined(schema, slot, singles)


def _joined(schema: BatchSchema, slot: Slot, singles: Sequence[SparseBatch]) -> tuple[SparseBatch, Order]:
    """A batch of these samples, ordered by output bucket."""
    schema = replace(schema, batch_size=len(singles))
    buckets = np.array([np.flatnonzero(np.diff(single.bucket_offsets))[0] for single in singles])
    order = np.argsort(buckets, kind="stable")
    ordered = [singles[index] for index in order]
    rows = {}
    for field in schema.sparse:
        views = [single.sparse[field.name] for single in ordered]
        bags = [(view, bag) for bag in range(field.bags_per_sample) for view in views]
        cuts = [slice(int(view.offsets[bag]), int(view.offsets[bag + 1])) for view, bag in bags]
        offsets = np.concatenate([[0], np.cumsum([cut.stop - cut.start for cut in cuts])])
        parts = [
            np.concatenate([view.arrays()[name][cut] for (view, _), cut in zip(bags, cuts, strict=True)])
            for name in ("features", "values")
            if name in views[0].arrays()
        ]
        rows[field.name] = (offsets, *parts)
    dense = {field.name: np.concatenate([single.dense[field.name] for single in ordered]) for field in schema.dense}
    borders = np.concatenate([[0], np.cumsum(np.bincount(buckets, minlength=schema.num_buckets))])
    write_batch(schema, slot, 0, rows, dense, borders)
    return SparseBatch.view(schema, slot), order


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
