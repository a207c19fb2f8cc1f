"""A batch as torch tensors: views of a ring slot on a CPU, copies on any other device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from loader.stream.fields import Fields
from loader.stream.schema import SparseBatch
from pool._native import SparsePlan

_MIN_USES = 4  # of a touched row, on average: with fewer a plan can't be worth its use


@dataclass(frozen=True)
class SparseInput:
    """One sparse field; see loader.stream.schema.SparseView for what the arrays mean."""

    offsets: Tensor  # uint32 [num_bags + 1]
    features: Tensor  # uint16 or uint32 [active]
    touched: Tensor  # as features [touched], ascending
    touched_offsets: Tensor  # uint32 [touched + 1]
    bags: Tensor  # uint16 or uint32 [active]
    values: Tensor | None = None  # float32 [active], in the order of features; None: all are 1
    column_values: Tensor | None = None  # float32 [active], in the order of bags
    _plans: dict[int, SparsePlan | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def num_bags(self) -> int:
        return self.offsets.numel() - 1

    def plan(self, num_features: int) -> SparsePlan | None:
        """How a table of so many rows is summed over these bags (CPU only); made once, for all layers.

        None if their sums share too little, and if they have values: bags then share rows, but no sums.
        Raises ValueError if offsets or features are out of bounds.
        """
        if num_features not in self._plans:
            self._plans[num_features] = self._make_plan(num_features)
        return self._plans[num_features]

    def _make_plan(self, num_features: int) -> SparsePlan | None:
        if self.values is not None or self.features.numel() < _MIN_USES * self.touched.numel():
            return None
        plan = SparsePlan(self.offsets, self.features, num_features)
        return plan if plan.worth else None

    def copy(self) -> SparseInput:
        """The same in memory of its own."""
        tensors = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        return SparseInput(**{name: tensor.clone() for name, tensor in tensors.items()})

    def to(self, device: torch.device) -> SparseInput:
        tensors = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        return SparseInput(**{name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()})


@dataclass(frozen=True)
class TensorBatch:
    """What a task's loss is given. Samples are ordered by output bucket."""

    number: int
    sparse: Mapping[str, SparseInput]
    dense: Mapping[str, Tensor]  # each [batch_size], in the schema's dtype
    bucket_offsets: tuple[int, ...]  # samples of bucket b: bucket_offsets[b] .. bucket_offsets[b + 1]

    @classmethod
    def from_numpy(cls, batch: SparseBatch) -> TensorBatch:
        """Zero-copy: the tensors are views of the slot. The arrays must be flagged writable."""
        return cls(
            number=batch.number,
            sparse=Fields(
                {
                    name: SparseInput(**{key: torch.from_numpy(array) for key, array in view.arrays().items()})
                    for name, view in batch.sparse.items()
                }
            ),
            dense=Fields({name: torch.from_numpy(array) for name, array in batch.dense.items()}),
            bucket_offsets=tuple(int(offset) for offset in batch.bucket_offsets),
        )

    def copy(self) -> TensorBatch:
        """The same in memory of its own."""
        return TensorBatch(
            number=self.number,
            sparse=Fields({name: field.copy() for name, field in self.sparse.items()}),
            dense=Fields({name: tensor.clone() for name, tensor in self.dense.items()}),
            bucket_offsets=self.bucket_offsets,
        )

    def to(self, device: torch.device) -> TensorBatch:
        if device.type == "cpu":
            return self
        return TensorBatch(
            number=self.number,
            sparse=Fields({name: field.to(device) for name, field in self.sparse.items()}),
            dense=Fields({name: tensor.to(device, non_blocking=True) for name, tensor in self.dense.items()}),
            bucket_offsets=self.bucket_offsets,
        )
