"""A linear layer over bags of feature numbers: forward gathers and adds rows, backward adds up per row.

On a CPU in float32 native kernels run, along a plan of the batch where its bags share enough features
(pool/native/sparse_plan.h), else one bag and one row after the other; elsewhere plain torch (pool.nn.reference).
The pool sets `gradient_sink`, so that the rows which a batch touched are written straight into its gradient slot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from pool import _native
from pool.nn import reference
from pool.nn.batch import SparseInput
from pool.threads import worthwhile

_MIN_SUMMANDS = 1 << 20  # floats added up per thread: below, starting a thread costs more than it saves


class TableSink(Protocol):
    """Where the table's gradient goes instead of `weight.grad`; once for each backward of a batch."""

    def begin(self, weight: Tensor) -> tuple[Tensor, Sequence[int]]:
        """Memory of weight's shape and dtype, and the rows, ascending, up to which `written` is wanted; the last is
        their number. Only rows that the batch touched will be written, none read."""

    def written(self, weight: Tensor, rows: int) -> None:
        """Of the first `rows` rows the touched ones are written (on a GPU: queued on the current stream)."""

    def done(self, weight: Tensor, finite: Tensor) -> None:
        """All are. `finite` (bool, no dimensions): whether all that was summed up in them is."""


class SparseLinear(nn.Module):
    """out[i] = bias + sum of weight[f] over the features f of bag i.

    `field` names the sparse field of the batch that it reads: by it the pool knows which rows a batch
    touched. weight is [num_features, out_features], bias [out_features]; both start uniform in
    +-1 / sqrt(num_features). With out_features a multiple of 16 each row is whole cache lines, up to 1.5
    times as fast.

    Without a sink it is an ordinary layer: weight.grad is dense, zero in untouched rows. With one, weight
    gets no .grad and the layer may be used only once in a backward (RuntimeError).
    """

    def __init__(
        self,
        num_features: int,
        out_features: int,
        bias: bool = True,
        *,
        field: str = "features",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        if num_features < 1 or out_features < 1:
            raise ValueError(f"num_features and out_features must be positive, not {num_features}, {out_features}")
        self.num_features = num_features
        self.out_features = out_features
        self.field = field
        self.weight = nn.Parameter(torch.empty(num_features, out_features, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(out_features, dtype=dtype)) if bias else None
        self.gradient_sink: TableSink | None = None
        self._last_backward = -1  # torch's number of the backward that used the sink last
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = self.num_features**-0.5
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, sparse: SparseInput) -> Tensor:
        """[sparse.num_bags, out_features]. ValueError if a number of `sparse` is out of bounds (CPU only)."""
        out: Tensor = _SparseLinear.apply(self.weight, self.bias, sparse, self)  # type: ignore[no-untyped-call]
        return out

    def extra_repr(self) -> str:
        return f"{self.num_features}, {self.out_features}, bias={self.bias is not None}, field={self.field!r}"

    def write_gradient(self, sparse: SparseInput, grad_out: Tensor) -> tuple[Tensor | None, Tensor]:
        """The table's gradient for autograd, None if it went to the sink; and the sum of grad_out's rows."""
        if self.gradient_sink is None:
            grad = torch.zeros_like(self.weight, memory_format=torch.contiguous_format)
            return grad, _backward_rows(sparse, grad_out, grad, [self.num_features], _tell_nobody)
        backward = torch._C._current_graph_task_id()
        if backward == self._last_backward:
            raise RuntimeError(
                f"this {type(self).__name__} (field {self.field!r}) is used more than once in one backward, but its "
                "gradient goes straight into a slot that holds one use: give each use its own layer"
            )
        self._last_backward = backward
        sink, weight = self.gradient_sink, self.weight
        memory, borders = sink.begin(weight)
        total = _backward_rows(sparse, grad_out, memory, borders, lambda rows: sink.written(weight, rows))
        sink.done(weight, total.isfinite().all())  # a sum keeps what is not finite, and is short
        return None, total


class _SparseLinear(torch.autograd.Function):
    @staticmethod
    def forward(weight: Tensor, bias: Tensor | None, sparse: SparseInput, layer: SparseLinear) -> Tensor:  # noqa: ARG004
        if not is_native(weight):
            return reference.forward(weight, bias, sparse)
        out = weight.new_empty(sparse.num_bags, weight.shape[1])
        table, start = weight.detach().contiguous(), None if bias is None else bias.detach().contiguous()
        threads = _threads(sparse.features.numel() * weight.shape[1])
        plan = sparse.plan(weight.shape[0])
        if plan.worth:
            plan.forward(table, start, out, threads)
        else:
            _native.sparse_forward(table, start, sparse.offsets, sparse.features, out, threads)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004
        ctx.sparse, ctx.layer = inputs[2:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        grad_out = grad_out.contiguous()
        if ctx.needs_input_grad[0]:
            grad_weight, total = ctx.layer.write_gradient(ctx.sparse, grad_out)
        else:
            grad_weight, total = None, _column_sum(grad_out)
        return grad_weight, total if ctx.needs_input_grad[1] else None, None, None


def _backward_rows(
    sparse: SparseInput, grad_out: Tensor, grad_weight: Tensor, borders: Sequence[int], written: Callable[[int], None]
) -> Tensor:
    """Writes the touched rows of grad_weight, telling of each border; returns the sum of grad_out's rows."""
    if not is_native(grad_weight):
        reference.backward_rows(sparse, grad_out, grad_weight)
        for border in borders:
            written(border)
        return _column_sum(grad_out)
    threads = _threads(sparse.features.numel() * grad_out.shape[1])
    plan = sparse.plan(grad_weight.shape[0])
    begin = 0
    if plan.worth:
        total = grad_out.new_empty(grad_out.shape[1])
        for border in borders:
            end = plan.num_tiles if border == borders[-1] else plan.tiles_until(border)
            plan.backward(grad_out, grad_weight, total, begin, end, threads)
            begin = end
            written(border)
        return total
    lists = sparse.touched, sparse.touched_offsets, sparse.bags
    for border in borders:
        end = int(np.searchsorted(sparse.touched.numpy(), border))
        _native.sparse_backward_rows(*lists, grad_out, grad_weight, first=begin, last=end, threads=threads)
        begin = end
        written(border)
    return _column_sum(grad_out)


def _tell_nobody(rows: int) -> None:
    pass


def _column_sum(matrix: Tensor) -> Tensor:
    if not is_native(matrix):
        return matrix.sum(0)
    out = matrix.new_empty(matrix.shape[1])
    _native.column_sum(matrix, out, threads=_threads(matrix.numel()))
    return out


def is_native(tensor: Tensor) -> bool:
    """Whether the native kernels run on it, and use the batch's plan."""
    return tensor.device.type == "cpu" and tensor.dtype == torch.float32


def _threads(summands: int) -> int:
    return worthwhile(summands, _MIN_SUMMANDS)
