"""The layout of a batch: its fields, and where they lie in a slot (the memory of one batch).

This module alone defines the byte layout of a slot. Writers (the native pipeline) get the offsets from here, readers
get zero-copy numpy views. Nothing here allocates a slot or copies a field.

    header            uint64: batch number, then per sparse field: active, touched
    bucket_offsets    uint32[num_buckets + 1]      samples of output bucket b: bucket_offsets[b] .. [b + 1]
    dense fields      dtype[batch_size] each
    sparse fields     offsets, features            rows: what is active in each bag
                      touched, touched_offsets, bags   columns: in which bags each touched feature is active
                      values, column_values        if the field has values: float32, beside features and bags

A bag is the set of active features of one sample, or of one side of a chess position. A touched feature is active in at
least one bag of the batch.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from loader.stream.fields import Fields

ALIGNMENT = 64  # bytes, of every region in a slot: one cache line, one AVX-512 register
PAGE = 4096  # bytes; a slot is a multiple of it

HEADER = "header"
BUCKET_OFFSETS = "bucket_offsets"


def narrowest_unsigned(count: int) -> np.dtype[Any]:
    """Returns the narrower of uint16 and uint32 that holds 0 .. count - 1."""
    return np.dtype(np.uint16 if count <= 1 << 16 else np.uint32)


@dataclass(frozen=True)
class SparseField:
    """A field that has bags of feature numbers, `bags_per_sample` for each sample. Bag b of a sample has the index `b *
    batch_size + sample`."""

    name: str
    num_features: int
    max_active: int  # features in one bag at most
    bags_per_sample: int = 1
    values: bool = False  # each active feature has a float32 value; else it counts 1, and nothing is stored


@dataclass(frozen=True)
class DenseField:
    """A field that has one number for each sample."""

    name: str
    dtype: str


@dataclass(frozen=True)
class Region:
    """The type, length and offset of an array inside a slot."""

    dtype: np.dtype[Any]
    count: int
    offset: int  # bytes from the start of the slot


@dataclass(frozen=True)
class BatchSchema:
    """The fields of a batch of exactly `batch_size` samples, and their layout in a slot. The samples are ordered by
    output bucket (the layer stack of the network that computes them)."""

    batch_size: int
    sparse: tuple[SparseField, ...]
    dense: tuple[DenseField, ...]
    num_buckets: int = 1

    def num_bags(self, sparse: SparseField) -> int:
        """Returns the number of bags that a batch has in the field `sparse`."""
        return sparse.bags_per_sample * self.batch_size

    @cached_property
    def regions(self) -> Mapping[str, Region]:
        """Returns the region of each array in the slot, by name: `score`, `features.offsets`, ..."""
        arrays: list[tuple[str, np.dtype[Any], int | None]] = [  # name, dtype, count; None: absent
            (HEADER, np.dtype(np.uint64), 1 + 2 * len(self.sparse)),
            (BUCKET_OFFSETS, np.dtype(np.uint32), self.num_buckets + 1),
        ]
        arrays += [(dense.name, np.dtype(dense.dtype), self.batch_size) for dense in self.dense]
        for sparse in self.sparse:
            bags = self.num_bags(sparse)
            max_active = bags * sparse.max_active
            max_touched = min(sparse.num_features, max_active)
            num_values = max_active if sparse.values else None
            feature_dtype = narrowest_unsigned(sparse.num_features)
            arrays += [
                (f"{sparse.name}.offsets", np.dtype(np.uint32), bags + 1),
                (f"{sparse.name}.features", feature_dtype, max_active),
                (f"{sparse.name}.values", np.dtype(np.float32), num_values),
                (f"{sparse.name}.touched", feature_dtype, max_touched),
                (f"{sparse.name}.touched_offsets", np.dtype(np.uint32), max_touched + 1),
                (f"{sparse.name}.bags", narrowest_unsigned(bags), max_active),
                (f"{sparse.name}.column_values", np.dtype(np.float32), num_values),
            ]
        regions: dict[str, Region] = {}
        offset = 0
        for name, dtype, count in arrays:
            if count is None:
                continue
            regions[name] = Region(dtype, count, offset)
            offset += -(-dtype.itemsize * count // ALIGNMENT) * ALIGNMENT
        return regions

    @cached_property
    def slot_bytes(self) -> int:
        """Returns the size of a slot in bytes, a multiple of PAGE."""
        last = list(self.regions.values())[-1]
        end = last.offset + last.count * last.dtype.itemsize
        return -(-end // PAGE) * PAGE


@dataclass(frozen=True)
class SparseView:
    """The arrays of one sparse field of one batch, as views of the slot.

    Rows: bag i has features[offsets[i] : offsets[i + 1]]. Columns: feature touched[j] (ascending) is active in
    bags[touched_offsets[j] : touched_offsets[j + 1]] (ascending). If the field has values, values[k] belongs to
    features[k], and column_values[k] to the touched feature in bags[k]: the same numbers in two orders.
    """

    offsets: npt.NDArray[np.uint32]  # [num_bags + 1]
    features: npt.NDArray[Any]  # [active]
    touched: npt.NDArray[Any]  # [touched]
    touched_offsets: npt.NDArray[np.uint32]  # [touched + 1]
    bags: npt.NDArray[Any]  # [active]
    values: npt.NDArray[np.float32] | None = None  # [active]
    column_values: npt.NDArray[np.float32] | None = None  # [active]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Returns the arrays that the field has, by name."""
        return {name: array for name, array in vars(self).items() if array is not None}

    def copy(self) -> SparseView:
        """Returns a copy in memory of its own."""
        return replace(self, **{name: array.copy() for name, array in self.arrays().items()})


@dataclass(frozen=True)
class SparseBatch:
    """The arrays of one batch, as zero-copy views of its slot. They are valid as long as the slot has no other owner
    (I4)."""

    number: int
    sparse: Mapping[str, SparseView]
    dense: Mapping[str, npt.NDArray[Any]]  # each [batch_size]
    bucket_offsets: npt.NDArray[np.uint32]  # [num_buckets + 1]
    slot: npt.NDArray[np.uint8] = field(repr=False)

    def copy(self) -> SparseBatch:
        """Returns a copy in memory of its own, which is no slot: `slot` is empty."""
        return SparseBatch(
            number=self.number,
            sparse=Fields({name: view.copy() for name, view in self.sparse.items()}),
            dense=Fields({name: array.copy() for name, array in self.dense.items()}),
            bucket_offsets=self.bucket_offsets.copy(),
            slot=np.empty(0, np.uint8),
        )

    @classmethod
    def view(cls, schema: BatchSchema, slot: npt.NDArray[np.uint8]) -> SparseBatch:
        """Makes the views of the finished batch in `slot` (uint8, at least schema.slot_bytes)."""

        def view_region(name: str, count: int | None = None) -> npt.NDArray[Any]:
            return _view_region(schema, slot, name, count)

        header = view_region(HEADER)
        sparse: Fields[SparseView] = Fields()
        for index, sparse_field in enumerate(schema.sparse):
            active, touched = _header_counts(header, index)
            sparse[sparse_field.name] = SparseView(
                offsets=view_region(f"{sparse_field.name}.offsets"),
                features=view_region(f"{sparse_field.name}.features", active),
                touched=view_region(f"{sparse_field.name}.touched", touched),
                touched_offsets=view_region(f"{sparse_field.name}.touched_offsets", touched + 1),
                bags=view_region(f"{sparse_field.name}.bags", active),
                values=view_region(f"{sparse_field.name}.values", active) if sparse_field.values else None,
                column_values=view_region(f"{sparse_field.name}.column_values", active)
                if sparse_field.values
                else None,
            )
        return cls(
            number=int(header[0]),
            sparse=sparse,
            dense=Fields({field.name: view_region(field.name) for field in schema.dense}),
            bucket_offsets=view_region(BUCKET_OFFSETS),
            slot=slot,
        )


def touched_features(
    schema: BatchSchema, slot: npt.NDArray[np.uint8], fields: Container[str]
) -> dict[str, npt.NDArray[Any]]:
    """Returns the array `SparseView.touched` of each of these fields, for the finished batch in `slot`."""
    header = _view_region(schema, slot, HEADER)
    touched = {}
    for index, sparse_field in enumerate(schema.sparse):
        if sparse_field.name in fields:
            _, count = _header_counts(header, index)
            touched[sparse_field.name] = _view_region(schema, slot, f"{sparse_field.name}.touched", count)
    return touched


def _header_counts(header: npt.NDArray[np.uint64], index: int) -> tuple[int, int]:
    """Returns the numbers of active and of touched features in the sparse field number `index` of a batch."""
    return int(header[1 + 2 * index]), int(header[2 + 2 * index])


def _view_region(
    schema: BatchSchema, slot: npt.NDArray[np.uint8], name: str, count: int | None = None
) -> npt.NDArray[Any]:
    """Returns a view of the first `count` numbers of the region `name`, of all by default."""
    region = schema.regions[name]
    count = region.count if count is None else count
    end = region.offset + count * region.dtype.itemsize
    return slot[region.offset : end].view(region.dtype)
