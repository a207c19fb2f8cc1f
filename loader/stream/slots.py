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
from loader.stream.schema import BUCKET_OFFSETS, HEADER, BatchSchema, SparseBatch, SparseField

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
    check_slot(schema, slot)
    check_names("sparse fields", rows, [field.name for field in schema.sparse])
    check_names("dense fields", dense, [field.name for field in schema.dense])
    header = [number]
    for sparse_field in schema.sparse:
        arrays = [np.asarray(array) for array in rows[sparse_field.name]]
        header += _write_sparse_field(schema, slot, sparse_field, arrays)
    for dense_field in schema.dense:
        values = np.asarray(dense[dense_field.name])
        check_dense(dense_field.name, values, np.dtype(dense_field.dtype), schema.batch_size)
        _write_region(schema, slot, dense_field.name, values)
    borders = np.asarray([0, schema.batch_size] if bucket_offsets is None else bucket_offsets)
    check_buckets(schema, borders)
    _write_region(schema, slot, BUCKET_OFFSETS, borders)
    _write_region(schema, slot, HEADER, header)


def _write_sparse_field(
    schema: BatchSchema, slot: Slot, field: SparseField, arrays: Sequence[npt.NDArray[Any]]
) -> tuple[int, int]:
    """Writes a sparse field by rows, and by columns: the bags of each touched feature. `arrays`: offsets, features, and
    values if the field has them. Returns the numbers of active and of touched features. Raises ValueError."""
    offsets, features, *values = arrays
    check_offsets_and_features(schema, field, offsets, features)
    check_values(field, features, values)
    bag_of_entry = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.argsort(features, kind="stable")  # bags stay ascending within a feature
    sorted_features, bags = features[order], bag_of_entry[order]
    begins = np.ones(len(features) + 1, np.bool_)  # true where the entries of a feature begin, and at the end
    begins[1:-1] = sorted_features[1:] != sorted_features[:-1]
    check_no_duplicates(field, sorted_features, bags, begins)
    touched_offsets = np.flatnonzero(begins)
    touched = sorted_features[touched_offsets[:-1]]
    _write_region(schema, slot, f"{field.name}.offsets", offsets)
    _write_region(schema, slot, f"{field.name}.features", features)
    _write_region(schema, slot, f"{field.name}.touched", touched)
    _write_region(schema, slot, f"{field.name}.touched_offsets", touched_offsets)
    _write_region(schema, slot, f"{field.name}.bags", bags)
    if values:
        _write_region(schema, slot, f"{field.name}.values", values[0])
        _write_region(schema, slot, f"{field.name}.column_values", values[0][order])
    return len(features), len(touched)


def _write_region(schema: BatchSchema, slot: Slot, name: str, values: npt.ArrayLike) -> None:
    """Writes `values` to the beginning of the region `name` of a slot."""
    region = schema.regions[name]
    array = np.asarray(values)
    end = region.offset + array.size * region.dtype.itemsize
    slot[region.offset : end].view(region.dtype)[:] = array


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
    num_requested = min(count, len(slots))
    for slot in range(num_requested):
        stream.give(slot)
    num_read = 0
    while num_read < count:
        filled = stream.take()
        if filled is None:
            poll.poll()
            continue
        yield SparseBatch.view(stream.schema, slots[filled.slot])
        num_read += 1
        if num_requested < count:
            stream.give(filled.slot)
            num_requested += 1
