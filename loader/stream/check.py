"""Checks the arrays of a batch before they are written into a slot (the memory of one batch). Readers of a slot use its
numbers as indices without checking them.

All functions raise ValueError that names the field and the place in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from loader.stream.schema import BatchSchema, SparseField

Array = npt.NDArray[Any]


def check_slot(schema: BatchSchema, slot: Array) -> None:
    """Raises ValueError unless `slot` is a vector of at least schema.slot_bytes uint8."""
    if slot.dtype != np.uint8 or slot.ndim != 1 or slot.size < schema.slot_bytes:
        raise ValueError(f"a slot is {schema.slot_bytes} bytes of uint8, not {slot.dtype} {list(slot.shape)}")


def check_names(kind: str, names: Iterable[str], expected: Iterable[str]) -> None:
    """Raises ValueError unless `names` and `expected` are the same names, in any order. `kind`: what they are names of,
    for the message."""
    if set(names) != set(expected):
        raise ValueError(f"{kind}: {', '.join(names) or 'none'} given, the schema has {', '.join(expected) or 'none'}")


def check_offsets_and_features(schema: BatchSchema, field: SparseField, offsets: Array, features: Array) -> None:
    """Checks the offsets [num_bags + 1] and features [active] of a sparse field: shapes, types, ranges, and the number
    of features in each bag. Duplicates are left to `check_no_duplicates`."""
    name = f"{field.name}.features"
    _check_offsets(f"{field.name}.offsets", offsets, schema.num_bags(field), features.size)
    _check_whole_numbers(name, features)
    if features.size and not (features.min() >= 0 and features.max() < field.num_features):
        index = int(np.flatnonzero((features < 0) | (features >= field.num_features))[0])
        raise ValueError(f"{name}: [{index}] is {features[index]}; allowed are 0 to {field.num_features - 1}")
    counts = np.diff(offsets)
    if counts.size and counts.max() > field.max_active:
        bag = int(counts.argmax())
        raise ValueError(f"{name}: bag {bag} has {counts[bag]}; the schema's max_active is {field.max_active}")


def check_values(field: SparseField, features: Array, values: Sequence[Array]) -> None:
    """Checks that a sparse field comes with one array of values [active], real numbers, if the schema has values for
    it, and with none otherwise."""
    if len(values) != int(field.values):
        expected = "offsets, features, values" if field.values else "offsets, features"
        raise ValueError(f"{field.name}: {2 + len(values)} arrays given; {expected} are expected")
    for array in values:
        if array.shape != features.shape or array.dtype.kind not in "fiub":
            raise ValueError(
                f"{field.name}.values: {array.dtype} {list(array.shape)} given; "
                f"[{features.size}] numbers are expected, one a feature"
            )


def check_no_duplicates(field: SparseField, features: Array, bags: Array, begins: Array) -> None:
    """Raises ValueError if a feature occurs twice in a bag. Features and bags [active] are sorted by feature, then by
    bag. `begins` [active + 1] is true at the first entry of each feature, and at the end."""
    is_duplicate = (bags[1:] == bags[:-1]) & ~begins[1:-1]
    if is_duplicate.any():
        first = int(is_duplicate.argmax())
        raise ValueError(f"{field.name}.features: bag {bags[first]} has feature {features[first]} twice")


def check_dense(name: str, values: Array, dtype: np.dtype[Any], batch_size: int) -> None:
    """Checks the values of a dense field: [batch_size] numbers that `dtype` can hold."""
    if values.shape != (batch_size,):
        raise ValueError(f"{name}: shape {list(values.shape)}; a batch has [{batch_size}]")
    if dtype.kind == "f":
        if values.dtype.kind not in "fiub":
            raise ValueError(f"{name}: {values.dtype} given, the schema has {dtype}")
        return
    _check_whole_numbers(name, values)
    limits = np.iinfo(dtype)
    if values.size and not (limits.min <= values.min() and values.max() <= limits.max):
        sample = int(np.flatnonzero((values < limits.min) | (values > limits.max))[0])
        raise ValueError(f"{name}: sample {sample} is {values[sample]}; {dtype} holds {limits.min} to {limits.max}")


def check_buckets(schema: BatchSchema, offsets: Array) -> None:
    """Checks the borders [num_buckets + 1] between the samples of consecutive output buckets."""
    _check_offsets("bucket_offsets", offsets, schema.num_buckets, schema.batch_size)


def _check_offsets(name: str, offsets: Array, count: int, end: int) -> None:
    """Raises ValueError unless `offsets` are count + 1 whole numbers that begin with 0, end with `end` and never
    decrease."""
    if offsets.shape != (count + 1,):
        raise ValueError(f"{name}: shape {list(offsets.shape)}; [{count + 1}] is expected")
    _check_whole_numbers(name, offsets)
    if offsets[0] != 0 or offsets[-1] != end:
        raise ValueError(f"{name}: runs from {offsets[0]} to {offsets[-1]}; 0 to {end} is expected")
    is_decreasing = offsets[1:] < offsets[:-1]
    if is_decreasing.any():
        first = int(is_decreasing.argmax())
        raise ValueError(f"{name}: falls from {offsets[first]} to {offsets[first + 1]} at [{first + 1}]")


def _check_whole_numbers(name: str, values: Array) -> None:
    if values.ndim != 1 or values.dtype.kind not in "iub":
        raise ValueError(f"{name}: {values.dtype} {list(values.shape)} given; a row of whole numbers is expected")
