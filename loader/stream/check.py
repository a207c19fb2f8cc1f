"""The check of a batch before it is written into a slot: readers index memory with its numbers and don't check them.

All functions raise ValueError that names the field, and where in it the fault is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from loader.stream.schema import BatchSchema, SparseField

Array = npt.NDArray[Any]


def check_slot(schema: BatchSchema, slot: Array) -> None:
    if slot.dtype != np.uint8 or slot.ndim != 1 or slot.size < schema.slot_bytes:
        raise ValueError(f"a slot is {schema.slot_bytes} bytes of uint8, not {slot.dtype} {list(slot.shape)}")


def check_names(kind: str, names: Iterable[str], wanted: Iterable[str]) -> None:
    if set(names) != set(wanted):
        raise ValueError(f"{kind}: {', '.join(names) or 'none'} given, the schema has {', '.join(wanted) or 'none'}")


def check_rows(schema: BatchSchema, field: SparseField, offsets: Array, features: Array) -> None:
    """Offsets [num_bags + 1] and features [active] of a sparse field; `check_once` does the rest."""
    name = f"{field.name}.features"
    _check_offsets(f"{field.name}.offsets", offsets, schema.num_bags(field), features.size)
    _check_whole_numbers(name, features)
    if features.size and not (features.min() >= 0 and features.max() < field.num_features):
        wrong = int(np.flatnonzero((features < 0) | (features >= field.num_features))[0])
        raise ValueError(f"{name}: [{wrong}] is {features[wrong]}; allowed are 0 to {field.num_features - 1}")
    counts = np.diff(offsets)
    if counts.size and counts.max() > field.max_active:
        bag = int(counts.argmax())
        raise ValueError(f"{name}: bag {bag} has {counts[bag]}; the schema's max_active is {field.max_active}")


def check_parts(field: SparseField, features: Array, values: Sequence[Array]) -> None:
    """Checks the parts of a field behind offsets and features: values [active], real numbers, if it has them, or
    nothing."""
    if len(values) != int(field.values):
        wanted = "offsets, features, values" if field.values else "offsets, features"
        raise ValueError(f"{field.name}: {2 + len(values)} arrays given; {wanted} are expected")
    for array in values:
        if array.shape != features.shape or array.dtype.kind not in "fiub":
            raise ValueError(
                f"{field.name}.values: {array.dtype} {list(array.shape)} given; "
                f"[{features.size}] numbers are expected, one a feature"
            )


def check_once(field: SparseField, features: Array, bags: Array, begins: Array) -> None:
    """No feature twice in a bag; features and bags [active] sorted by feature, then bag. `begins` [active + 1]: true
    where another feature begins."""
    twice = (bags[1:] == bags[:-1]) & ~begins[1:-1]
    if twice.any():
        first = int(twice.argmax())
        raise ValueError(f"{field.name}.features: bag {bags[first]} has feature {features[first]} twice")


def check_dense(name: str, values: Array, dtype: np.dtype[Any], batch_size: int) -> None:
    """[batch_size] numbers that the field's type can hold."""
    if values.shape != (batch_size,):
        raise ValueError(f"{name}: shape {list(values.shape)}; a batch has [{batch_size}]")
    if dtype.kind == "f":
        if values.dtype.kind not in "fiub":
            raise ValueError(f"{name}: {values.dtype} given, the schema has {dtype}")
        return
    _check_whole_numbers(name, values)
    limits = np.iinfo(dtype)
    if values.size and not (limits.min <= values.min() and values.max() <= limits.max):
        wrong = int(np.flatnonzero((values < limits.min) | (values > limits.max))[0])
        raise ValueError(f"{name}: sample {wrong} is {values[wrong]}; {dtype} holds {limits.min} to {limits.max}")


def check_buckets(schema: BatchSchema, offsets: Array) -> None:
    """[num_buckets + 1] borders of the samples' buckets."""
    _check_offsets("bucket_offsets", offsets, schema.num_buckets, schema.batch_size)


def _check_offsets(name: str, offsets: Array, count: int, end: int) -> None:
    """[count + 1] whole numbers from 0 to `end` that never fall."""
    if offsets.shape != (count + 1,):
        raise ValueError(f"{name}: shape {list(offsets.shape)}; [{count + 1}] is expected")
    _check_whole_numbers(name, offsets)
    if offsets[0] != 0 or offsets[-1] != end:
        raise ValueError(f"{name}: runs from {offsets[0]} to {offsets[-1]}; 0 to {end} is expected")
    falls = offsets[1:] < offsets[:-1]
    if falls.any():
        first = int(falls.argmax())
        raise ValueError(f"{name}: falls from {offsets[first]} to {offsets[first + 1]} at [{first + 1}]")


def _check_whole_numbers(name: str, values: Array) -> None:
    if values.ndim != 1 or values.dtype.kind not in "iub":
        raise ValueError(f"{name}: {values.dtype} {list(values.shape)} given; a row of whole numbers is expected")
