"""The sparse layer in plain torch, in any dtype: what the kernels are compared with."""

from __future__ import annotations

from torch import Tensor

from pool.kernels.sparse import SparseInput, place_rows
from pool.kernels.sparse import forward_by_torch as forward
from pool.kernels.sparse import touched_rows_by_torch as touched_rows

__all__ = ["backward_rows", "forward", "touched_rows"]


def backward_rows(sparse: SparseInput, grad_out: Tensor, grad_weight: Tensor) -> Tensor:
    """Writes the touched rows of `grad_weight` [num_features, out_features]; the others are left as they are.

    Returns what was written: [touched, out_features].
    """
    rows = touched_rows(sparse, grad_out)
    place_rows(sparse, rows, grad_weight)
    return rows
