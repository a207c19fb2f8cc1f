"""Reduces the gradients of a step along the tree (I2), on any device.

Native code does it on a CPU, our kernels on a CUDA device, and elsewhere torch's operations. All three have the same
bits.

Numbers are float32 and contiguous. A gradient may be bfloat16, beside others that are not. There is at least one
gradient. Their leaves of the tree ascend strictly, and on a device lie in one node of `MAX_LEAVES` leaves. Of
a table [rows, columns] a gradient defines the touched rows alone. On a CPU these lie where they belong or one after the
other. On a device they always lie one after the other, numbered by `Addend.row_numbers` (uint16 or uint32, all of one
type). Row r of a table belongs to feature first_row + r.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pool import _native
from pool.kernels.backend import backend_of
from pool.kernels.cuda import reduction as cuda
from pool.kernels.threads import MEMORY_BOUND, choose_num_threads
from pool.kernels.tree import tree_sum

MAX_LEAVES = cuda.MAX_LEAVES

Touched = npt.NDArray[np.unsignedinteger[Any]]  # numbers of a table's rows, ascending


@dataclass(frozen=True)
class Addend:
    """The gradient of a shard of the model, of one group of batches or added up over several groups.

    A sum over several groups has the leaf of one of them.
    """

    leaf: int  # of the tree (`pool.kernels.tree`)
    gradient: Tensor  # shaped as the shard; for a table it may be the defined rows alone, one after the other
    touched: Touched | None  # for a table: feature numbers of the rows that are defined; None: all are
    row_numbers: Tensor | None = None  # for a table on a device: `touched` there; the gradient has these rows alone


@dataclass(frozen=True)
class Reduction:
    """A reduction: the gradients to be added up, at least one, and how their sum is used."""

    addends: Sequence[Addend]
    scale: float = 1.0  # factor of the sum; with 1 nothing is multiplied
    first_row: int = 0  # for a table: feature number of the shard's first row
    touched_only: bool = False  # for a table: rows that no gradient defines stay as they are; else their sum is 0

    @property
    def has_rows(self) -> bool:
        """Returns whether this is the sum of a table's touched rows. Either all addends are rows of a table, or none
        is."""
        num_with_rows = sum(addend.touched is not None for addend in self.addends)
        assert num_with_rows in (0, len(self.addends)), "rows of a table, and all of it"
        return num_with_rows > 0

    @property
    def leaves(self) -> list[int]:
        return [addend.leaf for addend in self.addends]

    @property
    def gradients(self) -> list[Tensor]:
        return [addend.gradient for addend in self.addends]

    @property
    def row_numbers(self) -> list[Tensor]:
        """Returns the row numbers of each gradient, for a table on a device."""
        return [addend.row_numbers for addend in self.addends if addend.row_numbers is not None]


def reduce(out: Tensor, reduction: Reduction) -> None:
    """Writes to `out` the sum of the gradients times the scale. `out` may be the memory of one gradient. A device does
    this asynchronously."""
    match backend_of(out.device):
        case "cpu" if out.dtype == torch.float32:
            run_native(_NATIVE, [out], reduction, threads=choose_num_threads(out.numel(), MEMORY_BOUND))
        case "cuda" if reduction.has_rows:
            cuda.reduce_rows(
                out,
                reduction.gradients,
                reduction.row_numbers,
                reduction.leaves,
                reduction.scale,
                reduction.first_row,
                reduction.touched_only,
            )
        case "cuda":
            cuda.reduce(out, reduction.gradients, reduction.leaves, reduction.scale)
        case _:
            reduce_by_torch(out, reduction)


class NativeKernels(NamedTuple):
    """Two functions of `pool._native` that add gradients up and use the sum, in one pass over memory: for dense
    gradients, and for rows."""

    dense: Callable[..., None]
    rows: Callable[..., None]


_NATIVE = NativeKernels(_native.reduce, _native.reduce_rows)


def run_native(
    kernels: NativeKernels, tensors: Sequence[Tensor | Sequence[Tensor]], reduction: Reduction, **settings: Any
) -> None:
    """Calls the native function for the kind of gradients in `reduction`. All memory is that of a CPU.

    `tensors`: what the function writes or reads besides gradients, tensors or lists of tensors; `settings`: its other
    arguments.
    """
    settings |= {"leaves": reduction.leaves, "scale": reduction.scale}
    if reduction.has_rows:
        rows = [(addend.gradient, addend.touched) for addend in reduction.addends]
        kernels.rows(*tensors, rows, first_row=reduction.first_row, touched_only=reduction.touched_only, **settings)
    else:
        kernels.dense(*tensors, reduction.gradients, **settings)


class RowSum(NamedTuple):
    """The sum of a table's rows at one node of the tree, and which rows it defines."""

    rows: Tensor  # [rows, columns], zeros where no gradient defines the row
    is_defined: Tensor  # bool [rows, 1]: whether a gradient defines the row


def sum_by_torch(reduction: Reduction, dtype: torch.dtype = torch.float32) -> Tensor:
    """Returns the sum of dense gradients, not scaled. No shape depends on numbers in a tensor, so nothing waits for a
    device."""
    return tree_sum(reduction.leaves, [gradient.to(dtype) for gradient in reduction.gradients], torch.add)


def sum_rows_by_torch(like: Tensor, reduction: Reduction) -> RowSum:
    """Returns the sum of a table's rows, not scaled. `like`: a tensor of the table's shape."""
    assert len({numbers.dtype for numbers in reduction.row_numbers}) == 1, "lists of one type"
    leaf_sums = []
    for gradient, row_numbers in zip(reduction.gradients, reduction.row_numbers, strict=True):
        indices = row_numbers.to(torch.int64) - reduction.first_row
        rows = torch.zeros_like(like).index_copy_(0, indices, gradient.float())
        none_defined = torch.zeros(len(like), 1, dtype=torch.bool, device=like.device)
        leaf_sums.append(RowSum(rows, none_defined.index_fill_(0, indices, True)))
    total = tree_sum(reduction.leaves, leaf_sums, _add_row_sums)
    return RowSum(total.rows + 0.0, total.is_defined)  # turns a sum of -0.0 into 0.0, as native code and kernels do


def reduce_by_torch(out: Tensor, reduction: Reduction) -> None:
    """Does as `reduce` with torch's operations, on any device."""
    if not reduction.has_rows:
        out.copy_(_scale(sum_by_torch(reduction, out.dtype), reduction.scale))
        return
    total = sum_rows_by_torch(out, reduction)
    scaled = _scale(total.rows, reduction.scale)
    out.copy_(torch.where(total.is_defined, scaled, out) if reduction.touched_only else scaled)


def _add_row_sums(left: RowSum, right: RowSum) -> RowSum:
    """Adds two sums of rows. Where only one of them has a row it is copied, since a zero in it may be negative."""
    only_one = torch.where(left.is_defined, left.rows, right.rows)
    rows = torch.where(left.is_defined & right.is_defined, left.rows + right.rows, only_one)
    return RowSum(rows, left.is_defined | right.is_defined)


def _scale(total: Tensor, scale: float) -> Tensor:
    return total if scale == 1.0 else total * scale


def find_rows(touched: Touched, first: int, end: int) -> tuple[int, int]:
    """Returns begin and end, in an ascending list, of the rows from `first` to below `end`.

    (numpy's search would copy the whole list to compare numbers of one type.)
    """
    begin = bisect_left(touched, first)
    return begin, bisect_left(touched, end, begin)


def union_rows(addends: Sequence[Addend], first_row: int, num_rows: int) -> Touched | None:
    """Returns the numbers, in new memory, of those rows of a table's shard that any addend defines. None if it is no
    table.

    The shard has `num_rows` rows, from feature `first_row` on.
    """
    lists = [addend.touched for addend in addends if addend.touched is not None]
    if not lists:
        return None
    end_row = first_row + num_rows
    if len(lists) == 1:
        begin, end = find_rows(lists[0], first_row, end_row)
        return lists[0][begin:end].copy()
    out = np.empty(sum(map(len, lists)), np.uint32)
    return out[: _native.union_rows(out, lists, first=first_row, last=end_row)]
