"""The sparse layer in plain torch: the oracle of the kernels' tests, and the path of any other device or dtype.

Both directions are sums of rows over lists, so nothing is added atomically and nothing makes the host wait.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from pool.nn.batch import SparseInput


def forward(weight: Tensor, bias: Tensor | None, sparse: SparseInput) -> Tensor:
    """[num_bags, out_features]: bias plus the rows of `weight` that are active in each bag, times their values."""
    out = _sum_rows(weight, sparse.features, sparse.offsets, sparse.values)
    return out if bias is None else out + bias


def backward_rows(sparse: SparseInput, grad_out: Tensor, grad_weight: Tensor) -> Tensor:
    """Writes the touched rows of `grad_weight` [num_features, out_features]; the others are left as they are.

    Returns what was written: [touched, out_features].
    """
    rows = touched_rows(sparse, grad_out)
    place_rows(sparse, rows, grad_weight)
    return rows


def place_rows(sparse: SparseInput, rows: Tensor, grad_weight: Tensor) -> None:
    """Writes the touched rows to where they belong in `grad_weight` [num_features, out_features]."""
    grad_weight.index_copy_(0, sparse.touched.to(torch.int64), rows)


def touched_rows(sparse: SparseInput, grad_out: Tensor) -> Tensor:
    """[touched, out_features]: the gradient's rows of the features that `sparse.touched` lists, in their order."""
    return _sum_rows(grad_out, sparse.bags, sparse.touched_offsets, sparse.column_values)


def _sum_rows(table: Tensor, index: Tensor, offsets: Tensor, values: Tensor | None) -> Tensor:
    if index.numel() == 0:
        return table.new_zeros(offsets.numel() - 1, table.shape[1])
    # embedding_bag takes signed integers only, and values in the table's dtype
    index, offsets = index.to(torch.int64), offsets.to(torch.int64)
    values = None if values is None else values.to(table.dtype)
    return embedding_bag(index, table, offsets, mode="sum", include_last_offset=True, per_sample_weights=values)
