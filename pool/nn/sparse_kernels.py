"""The sparse layer's sums on any device: native code on a CPU in float32, our own kernels on a CUDA device
(pool.kernels.cuda.sparse_sums), elsewhere plain torch (pool.nn.reference).

Native code runs along a plan of the batch where its bags share enough features (sparse_plan.h in
pool/kernels/cpu/sparse/plan), else one bag and one row after the other. It gets numpy arrays: that takes a third of the
time that looking into tensors takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pool import _native
from pool._native import SparsePlan
from pool.kernels.cuda import sparse_sums
from pool.kernels.threads import worthwhile
from pool.nn import reference
from pool.nn.batch import SparseInput

_MIN_SUMMANDS = 1 << 20  # floats added up per thread: below, starting a thread costs more than it saves
_MIN_PLANNED = 8  # outputs: shorter rows are added in less time than their plan takes


def is_native(tensor: Tensor) -> bool:
    """Whether native code runs on it."""
    return tensor.device.type == "cpu" and tensor.dtype == torch.float32


def plan_of(weight: Tensor, sparse: SparseInput) -> SparsePlan | None:
    """The plan along which the rows of `weight` are summed over these bags; None if bag by bag.

    Raises ValueError if offsets or features are out of bounds.
    """
    planned = is_native(weight) and weight.shape[1] >= _MIN_PLANNED
    return sparse.plan(weight.shape[0]) if planned else None


def forward(weight: Tensor, bias: Tensor | None, sparse: SparseInput) -> Tensor:
    """[num_bags, out_features]: bias plus the rows of `weight` [num_features, out_features] that are active in each
    bag, times their values."""
    if not is_native(weight):
        if not sparse_sums.serves(weight):
            return reference.forward(weight, bias, sparse)
        start = None if bias is None else bias.contiguous()
        return sparse_sums.sum_lists(weight.contiguous(), sparse.features, sparse.offsets, sparse.values, start)
    out = weight.new_empty(sparse.num_bags, weight.shape[1])
    table, first = _array(weight.contiguous()), None if bias is None else _array(bias.contiguous())
    threads = threads_for(sparse.features.numel() * weight.shape[1])
    plan = plan_of(weight, sparse)
    if plan is not None:
        plan.forward(table, first, _array(out), threads)
    else:
        rows = _array(sparse.offsets), _array(sparse.features)
        values = None if sparse.values is None else _array(sparse.values)
        _native.sparse_forward(table, first, *rows, _array(out), threads, values=values)
    return out


def backward_rows(
    sparse: SparseInput, grad_out: Tensor, grad_weight: Tensor, borders: Sequence[int], written: Callable[[int], None]
) -> tuple[Tensor, Tensor | bool]:
    """Writes the touched rows of grad_weight [num_features, out_features], telling of each border when all rows below
    are; the last border is their number.

    Returns the sum of the rows of grad_out [num_bags, out_features], contiguous, and whether the written rows are
    finite if that sum is: without values they always are, since a sum keeps what is not finite; with values, a product
    may be what is not.
    """
    if not is_native(grad_weight):
        rows = touched_rows(sparse, grad_out)
        reference.place_rows(sparse, rows, grad_weight)
        for border in borders:
            written(border)
        return column_sum(grad_out), sparse.values is None or rows.isfinite().all()
    threads = threads_for(sparse.features.numel() * grad_out.shape[1])
    plan = plan_of(grad_weight, sparse)
    matrices = _array(grad_out), _array(grad_weight)
    if plan is not None:
        total = grad_out.new_empty(grad_out.shape[1])
        column_sums = _array(total)
        by_tiles(
            plan, borders, written, lambda first, last: plan.backward(*matrices, column_sums, first, last, threads)
        )
        return total, True
    touched = _array(sparse.touched)
    lists = touched, _array(sparse.touched_offsets), _array(sparse.bags)
    values = None if sparse.column_values is None else _array(sparse.column_values)
    finite = True
    begin = 0
    for border in borders:
        end = len(touched) if border == borders[-1] else int(np.searchsorted(touched, border))
        finite &= _native.sparse_backward_rows(*lists, *matrices, values=values, first=begin, last=end, threads=threads)
        begin = end
        written(border)
    return column_sum(grad_out), finite


def touched_rows(sparse: SparseInput, grad_out: Tensor) -> Tensor:
    """[touched, out_features]: the gradient's rows of the features that `sparse.touched` lists, where they are not
    written to the gradient by native code. `grad_out` is contiguous."""
    if sparse_sums.serves(grad_out):
        return sparse_sums.sum_long_lists(grad_out, sparse.bags, sparse.touched_offsets, sparse.column_values)
    return reference.touched_rows(sparse, grad_out)


def by_tiles(
    plan: SparsePlan, borders: Sequence[int], written: Callable[[int], None], run: Callable[[int, int], None]
) -> None:
    """Backward along a plan: run(first tile, last tile) and then written(border) for each border."""
    begin = 0
    for border in borders:
        end = plan.num_tiles if border == borders[-1] else plan.tiles_until(border)
        run(begin, end)
        begin = end
        written(border)


def column_sum(matrix: Tensor) -> Tensor:
    """[columns] of a contiguous [rows, columns]."""
    if not is_native(matrix):
        return sparse_sums.column_sums(matrix).to(matrix.dtype) if sparse_sums.serves(matrix) else matrix.sum(0)
    out = matrix.new_empty(matrix.shape[1])
    _native.column_sum(_array(matrix), _array(out), threads=threads_for(matrix.numel()))
    return out


def all_finite(vector: Tensor) -> Tensor | bool:
    """A tensor without dimensions where the answer would have to be waited for."""
    return bool(np.isfinite(_array(vector)).all()) if is_native(vector) else vector.isfinite().all()


def _array(tensor: Tensor) -> npt.NDArray[Any]:
    return tensor.detach().numpy()


def threads_for(summands: int) -> int:
    """Threads for adding up so many floats."""
    return worthwhile(summands, _MIN_SUMMANDS)
