"""Reads every sample of the files once, in the order of the files, in batches of which the last may be shorter.

A stream has no end, and fills the last batch of a pass with samples of the next pass. It orders the samples of a batch
by output bucket, and within a bucket as they came. So the samples that remain after the whole batches are read as the
only batch of a second stream. A third stream, of batches of one sample, shows how many remain, and the output bucket
of each sample.
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
NUM_SINGLE_SLOTS = 512  # batches of one sample made ahead

Order = npt.NDArray[np.int64]  # [batch]: order[j] is the place, in the files' order, of the batch's sample j


def read_in_file_order(data: Data) -> Iterator[tuple[SparseBatch, Order]]:
    """Yields each batch with the order of its samples. A batch is valid until the next is asked for. data.batch_size is
    the length of all batches but the last; shuffle, tail and validation_share are ignored.

    Raises DataError, and ValueError for settings that the source can't serve.
    """
    data = data.with_settings(shuffle=False, tail="flow", validation_share=0.0)
    schema = data.schema()
    with closing(_sample_orders(schema, data)) as orders:
        end = yield from _full_batches(data, orders)
    if end.epoch == 0:
        yield from _read_last_batch(data, replace(end, batch=0))


def _sample_orders(schema: BatchSchema, data: Data) -> Generator[Order, None, None]:
    """Yields the order of the samples in each full batch of the stream, without end."""
    if schema.num_buckets == 1:
        while True:
            yield np.arange(schema.batch_size)
    with closing(data.with_settings(batch_size=1).open()) as stream:
        single_samples = (slot for _, slot in _finished_batches(stream, num_slots=NUM_SINGLE_SLOTS))
        while True:
            yield _order_by_bucket(stream.schema, itertools.islice(single_samples, schema.batch_size))


def _order_by_bucket(schema: BatchSchema, slots: Iterable[Slot]) -> Order:
    """Returns the order in which a batch of these samples holds them, by output bucket. Each slot holds one sample, in
    the files' order. `schema`: of these slots."""
    region = schema.regions[BUCKET_OFFSETS]
    array = slice(region.offset, region.offset + region.count * region.dtype.itemsize)
    offsets = np.frombuffer(b"".join(slot[array].tobytes() for slot in slots), region.dtype)
    buckets = np.count_nonzero(offsets.reshape(-1, region.count) == 0, axis=1)  # bucket + 1 of each sample
    return np.argsort(buckets, kind="stable")


def _full_batches(data: Data, orders: Iterator[Order]) -> Generator[tuple[SparseBatch, Order], None, Cursor]:
    """Yields the full batches of the first pass, each with the order of its samples. Returns the cursor at which the
    remaining samples begin; it lies in the second pass if none remain."""
    with closing(data.open()) as stream:
        for filled, slot in _finished_batches(stream):
            if not _ends_in_first_pass(filled):
                return filled.cursor
            yield SparseBatch.view(stream.schema, slot), next(orders)
    raise AssertionError("a stream has no end")


def _read_last_batch(data: Data, begin: Cursor) -> Iterator[tuple[SparseBatch, Order]]:
    """Yields the samples from `begin` to the end of the first pass as one batch, or nothing if there are none."""
    with closing(data.with_settings(batch_size=1).open()) as stream:
        order = _order_by_bucket(stream.schema, _single_samples(stream, begin))
    if order.size == 0:  # only empty windows remain of the pass
        return
    with closing(data.with_settings(batch_size=len(order)).open()) as stream:
        _, slot = next(_finished_batches(stream, begin, num_slots=1))
        yield SparseBatch.view(stream.schema, slot), order


def _single_samples(stream: Stream, begin: Cursor) -> Iterator[Slot]:
    """Yields the slots of a stream of batches of one sample, from `begin` to the end of the first pass."""
    for filled, slot in _finished_batches(stream, begin, NUM_SINGLE_SLOTS):
        if not _ends_in_first_pass(filled):
            return
        yield slot


def _ends_in_first_pass(filled: Filled) -> bool:
    """Returns whether the batch has no sample of the second pass. The batch's end decides and not its beginning, since
    after the last sample of a pass there may be windows without any."""
    end = filled.next_cursor
    return end.epoch == 0 or end == Cursor(end.batch, epoch=1)


def _finished_batches(
    stream: Stream, begin: Cursor | None = None, num_slots: int = NUM_SLOTS
) -> Iterator[tuple[Filled, Slot]]:
    """Yields each finished batch with its slot, which is valid until the next is asked for. `stream` must be new.
    Raises DataError."""
    slots = allocate_slots(stream.schema, num_slots)
    stream.attach(slots)
    if begin is not None:
        stream.seek(begin)
    for slot in range(num_slots):
        stream.give(slot)
    poll = select.poll()
    poll.register(stream.fileno(), select.POLLIN)
    while True:
        filled = stream.take()
        if filled is None:
            poll.poll()
            continue
        yield filled, slots[filled.slot]
        stream.give(filled.slot)
