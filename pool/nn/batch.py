"""A batch as torch tensors: views of a ring slot on a CPU, copies on any other device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from loader.stream.fields import Fields
from loader.stream.schema import SparseBatch
from pool.kernels.sparse import SparseInput

__all__ = ["SparseInput", "TensorBatch"]


@dataclass(frozen=True)
class TensorBatch:
    """The batch that a task's loss is given. Its samples are ordered by output bucket (the layer stack that a sample
    uses)."""

    number: int
    sparse: Mapping[str, SparseInput]
    dense: Mapping[str, Tensor]  # each [batch_size], in the schema's dtype
    bucket_offsets: tuple[int, ...]  # samples of bucket b: bucket_offsets[b] .. bucket_offsets[b + 1]

    @classmethod
    def from_numpy(cls, batch: SparseBatch) -> TensorBatch:
        """Returns the batch as tensors that are zero-copy views of its ring slot. The arrays must be flagged
        writable."""
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
        """Returns a copy of the batch in memory of its own."""
        return TensorBatch(
            number=self.number,
            sparse=Fields({name: field.copy() for name, field in self.sparse.items()}),
            dense=Fields({name: tensor.clone() for name, tensor in self.dense.items()}),
            bucket_offsets=self.bucket_offsets,
        )

    def to(self, device: torch.device) -> TensorBatch:
        """Returns a copy of the batch on a device, or the batch itself if the device is a CPU."""
        if device.type == "cpu":
            return self
        return TensorBatch(
            number=self.number,
            sparse=Fields({name: field.to(device) for name, field in self.sparse.items()}),
            dense=Fields({name: tensor.to(device, non_blocking=True) for name, tensor in self.dense.items()}),
            bucket_offsets=self.bucket_offsets,
        )
