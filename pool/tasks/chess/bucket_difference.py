"""A sparse layer with an output for each bucket, of which a sample has that of its own alone, where there is a kernel
for that (pool.tasks.chess.cuda.bucket_difference)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pool.kernels.cuda import sparse_sums
from pool.nn.batch import SparseInput
from pool.nn.sparse_linear import SparseLinear
from pool.tasks.chess.cuda import bucket_difference as cuda


def is_served(layer: SparseLinear, sparse: SparseInput) -> bool:
    """Whether `bucket_difference` takes these: on a device with kernels, float32, without bias, without values."""
    if torch._C._are_functorch_transforms_active() or layer.bias is not None or sparse.values is not None:
        return False
    fits = layer.weight.dtype == torch.float32 and layer.out_features <= cuda.MOST_BUCKETS
    return fits and layer.gradient_sink is None and sparse_sums.serves(layer.weight)


def bucket_difference(layer: SparseLinear, sparse: SparseInput, borders: Sequence[int]) -> Tensor:
    """[samples]: half of own minus opponent's sum, of the output of the sample's bucket; those of bucket b are
    borders[b] .. borders[b + 1]. Bags are all own perspectives, then all the opponents'."""

    def write(gradient: Tensor) -> Tensor | None:
        return layer.write_compact(sparse, gradient)

    table, _ = layer.in_effect(layer.weight, None, sparse)
    return cuda.bucket_difference(layer.weight, table, sparse.features, sparse.offsets, borders, write)
