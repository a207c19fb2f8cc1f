"""Computes the sums of the sparse layer over bags of feature numbers, on any device.

A bag is the active features of one sample, or of one side of a chess position. Native code computes on a CPU in
float32, our own kernels on a CUDA device in float32 and bfloat16, and elsewhere plain torch, with which tests compare
the others.

Native code runs along a plan of the batch (pool/kernels/cpu/sparse/sparse_plan.h) where its bags share enough features,
else one bag and one row after the other. It is given numpy arrays, which takes a third of the time of reading tensors.
Nothing is added atomically, and nothing makes the host wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from pool import _native
from pool._native import SparsePlan
from pool.kernels.backend import Backend, backend_of
from pool.kernels.cuda import sparse as cuda
from pool.kernels.threads import choose_num_threads

_MIN_USES = 4  # average uses of a touched row: with fewer a plan costs more than it saves
_MIN_SUMMANDS = 1 << 20  # floats added up per thread: below, starting a thread costs more than it saves
_MIN_PLANNED = 8  # outputs: shorter rows are added in less time than their plan takes
_DTYPES = {"cpu": (torch.float32,), "cuda": (torch.float32, torch.bfloat16)}


@dataclass(frozen=True)
class SparseInput:
    """One sparse field of a batch as tensors. `loader.stream.schema.SparseView` explains the arrays."""

    offsets: Tensor  # uint32 [num_bags + 1]
    features: Tensor  # uint16 or uint32 [active]
    touched: Tensor  # feature numbers that occur, ascending, dtype of features [touched]
    touched_offsets: Tensor  # uint32 [touched + 1]
    bags: Tensor  # uint16 or uint32 [active]
    values: Tensor | None = None  # float32 [active], in the order of features; None: all are 1
    column_values: Tensor | None = None  # float32 [active], in the order of bags
    _plans: dict[int, SparsePlan | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def num_bags(self) -> int:
        return self.offsets.numel() - 1

    def plan(self, num_features: int) -> SparsePlan | None:
        """Returns the plan by which native code sums rows of a table of `num_features` rows over these bags (CPU only).

        The plan is made once, for all layers. None if the bags' sums share too little, and if the field has values,
        since bags then share rows, but no sums. Raises ValueError if offsets or features are out of bounds.
        """
        if num_features not in self._plans:
            self._plans[num_features] = self._build_plan(num_features)
        return self._plans[num_features]

    def _build_plan(self, num_features: int) -> SparsePlan | None:
        if self.values is not None or self.features.numel() < _MIN_USES * self.touched.numel():
            return None
        plan = SparsePlan(self.offsets, self.features, num_features)
        return plan if plan.is_worthwhile else None

    def copy(self) -> SparseInput:
        """Returns a copy in new memory, without plans."""
        return SparseInput(**{name: tensor.clone() for name, tensor in self._tensors().items()})

    def to(self, device: torch.device) -> SparseInput:
        """Returns a copy on a device, asynchronous where the memory allows it."""
        return SparseInput(**{name: tensor.to(device, non_blocking=True) for name, tensor in self._tensors().items()})

    def _tensors(self) -> dict[str, Tensor]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}


def backend_for(table: Tensor) -> Backend:
    """Returns which implementation sums the rows of a table with this device and dtype."""
    backend = backend_of(table.device)
    return backend if table.dtype in _DTYPES.get(backend, ()) else "torch"


def plan_of(weight: Tensor, sparse: SparseInput) -> SparsePlan | None:
    """Returns the plan along which the rows of `weight` are summed over these bags, or None if they are summed bag by
    bag.

    Raises ValueError if offsets or features are out of bounds.
    """
    if backend_for(weight) != "cpu" or weight.shape[1] < _MIN_PLANNED:
        return None
    return sparse.plan(weight.shape[0])


def forward(weight: Tensor, bias: Tensor | None, sparse: SparseInput) -> Tensor:
    """Returns, for each bag, bias plus the sum of the rows of `weight` of its features, each times its value:
    [num_bags, out_features].

    `weight`: [num_features, out_features].
    """
    match backend_for(weight):
        case "cpu":
            return _forward_native(weight, bias, sparse)
        case "cuda":
            start = None if bias is None else bias.contiguous()
            return cuda.sum_lists(weight.contiguous(), sparse.features, sparse.offsets, sparse.values, start)
        case "torch":
            return forward_by_torch(weight, bias, sparse)


def _forward_native(weight: Tensor, bias: Tensor | None, sparse: SparseInput) -> Tensor:
    """Does as `forward` by native code: along the batch's plan if it has one, else bag by bag."""
    out = weight.new_empty(sparse.num_bags, weight.shape[1])
    table = _array(weight.contiguous())
    start = None if bias is None else _array(bias.contiguous())
    threads = choose_sum_threads(sparse.features.numel() * weight.shape[1])
    plan = plan_of(weight, sparse)
    if plan is not None:
        plan.forward(table, start, _array(out), threads)
    else:
        bags = _array(sparse.offsets), _array(sparse.features)
        values = None if sparse.values is None else _array(sparse.values)
        _native.sparse_forward(table, start, *bags, _array(out), threads, values=values)
    return out


def backward_rows(
    sparse: SparseInput, grad_out: Tensor, grad_weight: Tensor, borders: Sequence[int], written: Callable[[int], None]
) -> tuple[Tensor, Tensor | bool]:
    """Writes the touched rows of a table's gradient, grad_weight [num_features, out_features].

    Calls `written(border)` for each of the borders, ascending row numbers, when all touched rows below it are written.
    The last border is the number of rows. `grad_out`: [num_bags, out_features], contiguous.

    Returns the sum of the rows of grad_out, and whether the written rows are finite if that sum is. Without values they
    always are, since a sum keeps what is not finite. With values a product may not be.
    """
    if backend_for(grad_weight) != "cpu":
        rows = touched_rows(sparse, grad_out)
        place_rows(sparse, rows, grad_weight)
        for border in borders:
            written(border)
        return column_sum(grad_out), sparse.values is None or rows.isfinite().all()
    plan = plan_of(grad_weight, sparse)
    if plan is None:
        return _backward_rows_native(sparse, grad_out, grad_weight, borders, written)
    total = grad_out.new_empty(grad_out.shape[1])
    arrays = _array(grad_out), _array(grad_weight), _array(total)
    threads = choose_sum_threads(sparse.features.numel() * grad_out.shape[1])
    by_tiles(plan, borders, written, lambda first, last: plan.backward(*arrays, first, last, threads))
    return total, True


def _backward_rows_native(
    sparse: SparseInput, grad_out: Tensor, grad_weight: Tensor, borders: Sequence[int], written: Callable[[int], None]
) -> tuple[Tensor, bool]:
    """Does as `backward_rows` by native code without a plan, one row after the other."""
    threads = choose_sum_threads(sparse.features.numel() * grad_out.shape[1])
    touched = _array(sparse.touched)
    lists = touched, _array(sparse.touched_offsets), _array(sparse.bags)
    matrices = _array(grad_out), _array(grad_weight)
    values = None if sparse.column_values is None else _array(sparse.column_values)
    is_finite = True
    begin = 0
    for border in borders:
        end = len(touched) if border == borders[-1] else int(np.searchsorted(touched, border))
        is_finite &= _native.sparse_backward_rows(
            *lists, *matrices, values=values, first=begin, last=end, threads=threads
        )
        begin = end
        written(border)
    return column_sum(grad_out), is_finite


def touched_rows(sparse: SparseInput, grad_out: Tensor) -> Tensor:
    """Returns the rows of a table's gradient for the features that `sparse.touched` lists: [touched, out_features].

    For use where native code does not write them to the gradient. `grad_out` is contiguous.
    """
    if backend_for(grad_out) == "cuda":
        return cuda.sum_long_lists(grad_out, sparse.bags, sparse.touched_offsets, sparse.column_values)
    return touched_rows_by_torch(sparse, grad_out)


def place_rows(sparse: SparseInput, rows: Tensor, grad_weight: Tensor) -> None:
    """Writes the touched rows to where they belong in a table's gradient, grad_weight [num_features, out_features]."""
    grad_weight.index_copy_(0, sparse.touched.to(torch.int64), rows)


def by_tiles(
    plan: SparsePlan, borders: Sequence[int], written: Callable[[int], None], run: Callable[[int, int], None]
) -> None:
    """Runs the backward pass along a plan, tile by tile: for each border run(first tile, end), then written(border)."""
    begin = 0
    for border in borders:
        end = plan.num_tiles if border == borders[-1] else plan.tiles_until(border)
        run(begin, end)
        begin = end
        written(border)


def column_sum(matrix: Tensor) -> Tensor:
    """Returns the sums of the columns, [columns], of a contiguous matrix [rows, columns]."""
    match backend_for(matrix):
        case "cuda":
            return cuda.column_sums(matrix).to(matrix.dtype)
        case "torch":
            return matrix.sum(0)
    out = matrix.new_empty(matrix.shape[1])
    _native.column_sum(_array(matrix), _array(out), threads=choose_sum_threads(matrix.numel()))
    return out


def all_finite(vector: Tensor) -> Tensor | bool:
    """Returns whether all numbers of a vector are finite: a bool, or a tensor of no dimension where the host would have
    to wait."""
    if backend_for(vector) == "cpu":
        return bool(np.isfinite(_array(vector)).all())
    return vector.isfinite().all()


def _array(tensor: Tensor) -> npt.NDArray[Any]:
    return tensor.detach().numpy()


def choose_sum_threads(num_floats: int) -> int:
    """Returns how many threads should add up so many floats."""
    return choose_num_threads(num_floats, _MIN_SUMMANDS)


def forward_by_torch(weight: Tensor, bias: Tensor | None, sparse: SparseInput) -> Tensor:
    """Does as `forward` with torch's operations, on any device and with any dtype."""
    out = _sum_rows(weight, sparse.features, sparse.offsets, sparse.values)
    return out if bias is None else out + bias


def touched_rows_by_torch(sparse: SparseInput, grad_out: Tensor) -> Tensor:
    """Does as `touched_rows` with torch's operations, on any device and with any dtype."""
    return _sum_rows(grad_out, sparse.bags, sparse.touched_offsets, sparse.column_values)


def _sum_rows(table: Tensor, index: Tensor, offsets: Tensor, values: Tensor | None) -> Tensor:
    """Returns, for each list of row numbers, the sum of the rows of `table`, each times its value if there are values.

    List l is index[offsets[l] : offsets[l + 1]].
    """
    if torch.compiler.is_exporting():
        return _scatter_rows(table, index, offsets, values)
    if index.numel() == 0:
        return table.new_zeros(offsets.numel() - 1, table.shape[1])
    # embedding_bag takes signed integers only, and values in the table's dtype
    index, offsets = index.to(torch.int64), offsets.to(torch.int64)
    values = None if values is None else values.to(table.dtype)
    return embedding_bag(index, table, offsets, mode="sum", include_last_offset=True, per_sample_weights=values)


def _scatter_rows(table: Tensor, index: Tensor, offsets: Tensor, values: Tensor | None) -> Tensor:
    """Does as `_sum_rows` for exporters, which would turn embedding_bag into a loop over the bags.

    `scatter_add` becomes ONNX's ScatterElements. `index_add` would become ScatterND, with which onnxruntime loses
    additions into one row as soon as it uses several threads. Where `_sum_rows` would refuse its input, an index beyond
    the end is used, which a runtime of the ONNX file refuses. (It counts negative indices from the end.)
    """
    active = index.numel()
    ends = offsets[1:]
    disordered = (offsets[:1] != 0).any() | (ends < offsets[:-1]).any() | (offsets[-1:] != active).any()
    ends = torch.where(disordered, active + 1, ends)
    bags_ended = torch.zeros(active + 1, dtype=torch.int64).scatter_add(0, ends, torch.ones_like(ends))
    bags = bags_ended.cumsum(0)[:active]  # for each feature the number of bags that end before it, so its bag
    rows = table[torch.where(index < 0, table.shape[0], index)]
    if values is not None:
        rows = rows * values.to(table.dtype).unsqueeze(1)
    sums = table.new_zeros(offsets.numel() - 1, table.shape[1])
    return sums.scatter_add(0, bags.unsqueeze(1).expand_as(rows), rows)
