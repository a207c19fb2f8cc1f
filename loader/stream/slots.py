"""Slots (memory of one batch each) for programs other than the pool, and `write_batch`, for sources written in Python.

Allocates slots as the pool would (aligned to pages, zeroed) but outside shared memory, writes a batch into a slot with
numpy, and reads a number of batches from a stream. Tests compare the native writer with the one in numpy.
"""

from __future__ import annotations

import mmap
import select
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from loader.stream.check import (
    check_buckets,
    check_dense,
    check_names,
    check_no_duplicates,
    check_offsets_and_features,
    check_slot,
    check_values,
)
from loader.stream.interface import Stream
from loader.stream.schema import BUCKET_OFFSETS, HEADER, BatchSchema, SparseBatch

Slot = npt.NDArray[np.uint8]


def allocate_slots(schema: BatchSchema, count: int) -> list[Slot]:
    """Returns `count` zeroed slots of schema.slot_bytes, each aligned to a page (and so to a cache line). The memory is
    private to this process."""
    # Private: a forked process keeps the batch that it was forked with.
    memory = (mmap.mmap(-1, schema.slot_bytes, flags=mmap.MAP_PRIVATE) for _ in range(count))
    return [np.frombuffer(slot, dtype=np.uint8) for slot in memory]


def write_batch(
    schema: BatchSchema,
    slot: Slot,
    number: int,
    rows: Mapping[str, tuple[npt.NDArray[Any], ...]],
    dense: Mapping[str, npt.NDArray[Any]],
    bucket_offsets: npt.NDArray[Any] | None = None,
) -> None:
    """Writes batch `number` into `slot`.

    rows: for each sparse field (offsets [num_bags + 1], features [active]), and a third array, values [active], if the
    field has values. A feature occurs at most once in a bag: add up the values of a repeated feature first. Values may
    be anything that float32 holds. Zeros are kept, and a value that is not finite makes the batch a bad one when it is
    used.
    dense: for each dense field [batch_size].
    bucket_offsets: borders [num_buckets + 1] between output buckets; may be left out if there is one bucket.

    Raises ValueError that names the field for counts, numbers and types that are not the schema's. Then the slot may be
    half written and must not be used.
    """

    def put(name: str, values: npt.ArrayLike) -> None:
        region = schema.regions[name]
        array = np.asarray(values)
        end = region.offset + array.size * region.dtype.itemsize
        slot[region.offset : end].view(region.dtype)[:] = array

    check_slot(schema, slot)
    check_names("sparse fields", rows, [field.name for field in schema.sparse])
    check_names("dense fields", dense, [field.name for field in schema.dense])
    header = [number]
    for field in schema.sparse:
        offsets, features, *values = (np.asarray(part) for part in rows[field.name])
        check_offsets_and_features(schema, field, offsets, features)
        check_values(field, features, values)
        bag_of = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        order = np.argsort(features, kind="stable")  # bags stay ascending within a feature
        column, bags = features[order], bag_of[order]
        begins = np.ones(len(column) + 1, np.bool_)  # true where the entries of a feature begin, and at the end
        begins[1:-1] = column[1:] != column[:-1]
        check_no_duplicates(field, column, bags, begins)
        touched_offsets = np.flatnonzero(begins)
        touched = column[touched_offsets[:-1]]
        put(f"{field.name}.offsets", offsets)
        put(f"{field.name}.features", features)
        put(f"{field.name}.touched", touched)
        put(f"{field.name}.touched_offsets", touched_offsets)
        put(f"{field.name}.bags", bags)
        for array in values:
            put(f"{field.name}.values", array)
            put(f"{field.name}.column_values", array[order])
        header += [len(features), len(touched)]
    for entry in schema.dense:
        check_dense(entry.name, np.asarray(dense[entry.name]), np.dtype(entry.dtype), schema.batch_size)
        put(entry.name, dense[entry.name])
    borders = np.asarray([0, schema.batch_size] if bucket_offsets is None else bucket_offsets)
    check_buckets(schema, borders)
    put(BUCKET_OFFSETS, borders)
    put(HEADER, header)


def read_batches(stream: Stream, count: int, slots: Sequence[Slot] | None = None) -> Iterator[SparseBatch]:
    """Yields the next `count` batches of a stream. Each is valid until the next is asked for.

    Without `slots` the stream must be new: four slots are allocated and attached. `slots` are those that were attached
    before, and all of them must be the caller's, as they are again at the end.
    """
    if slots is None:
        slots = allocate_slots(stream.schema, 4)
        stream.attach(slots)
    poll = select.poll()
    poll.register(stream.fileno(), select.POLLIN)
    free = min(count, len(slots))
    for slot in range(free):
        stream.give(slot)
    for _ in range(count):
        while (filled := stream.take()) is None:
            poll.poll()
        yield SparseBatch.view(stream.schema, slots[filled.slot])
        if free < count:
            stream.give(filled.slot)
            free += 1
