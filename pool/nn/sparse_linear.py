"""A linear layer over bags of feature numbers: forward gathers and adds rows, backward adds up per row.

The sums are those of pool.kernels.sparse. The pool sets `gradient_sink`, so that the rows which a batch
touched are written straight into its gradient slot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from pool.kernels import sparse as kernels
from pool.kernels.sparse import SparseInput


class TableSink(Protocol):
    """The place where the table's gradient goes instead of `weight.grad`; once for each backward of a batch."""

    def begin(self, weight: Tensor) -> tuple[Tensor, Sequence[int]]:
        """Memory of weight's shape and dtype, and the rows, ascending, up to which `written` is wanted; the last is
        their number. Only rows that the batch touched will be written, none read."""

    def written(self, weight: Tensor, rows: int) -> None:
        """Notes that of the first `rows` rows the touched ones are written."""

    def done(self, weight: Tensor, finite: Tensor | bool) -> None:
        """All are. `finite` (a tensor of bool without dimensions, or a bool): False if anything in them is not."""


class RowsSink(Protocol):
    """A TableSink for a device with memory of its own."""

    def take(self, weight: Tensor, rows: Tensor) -> None:
        """The touched rows, [touched, out_features], in the order of the batch's list; queued on the current stream."""


# (memory of the table's shape, borders, written) -> the sum of the output's gradient, and whether the rows that were
# written are finite if that sum is: as pool.kernels.sparse.backward_rows.
WriteRows = Callable[[Tensor, Sequence[int], Callable[[int], None]], tuple[Tensor, Tensor | bool]]


class SparseLinear(nn.Module):
    """out[i] = bias + sum of weight[f] over the features f of bag i; each times its value if the field has values.

    `field` names the sparse field of the batch that it reads: by it the pool knows which rows a batch
    touched. weight is [num_features, out_features], bias [out_features]; both start uniform in
    +-1 / sqrt(num_features). With out_features a multiple of 16 each row is whole cache lines, up to 1.5
    times as fast.

    Without a sink it is an ordinary layer: weight.grad is dense, zero in untouched rows. With one, weight
    gets no .grad and the layer may be used only once in a backward (RuntimeError).

    torch.func.vmap over tables computes one after the other along the one plan of the batch. With `members` set, the
    layers of as many models, these are called instead: their tables need not be stacked.

    A derived class may sum other numbers than weight and bias (`in_effect`); the gradient is theirs all the same.
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
        self.rows_sink: RowsSink | None = None
        self.members: Sequence[Callable[[SparseInput], Tensor]] = ()  # that this layer stands for under vmap
        self._last_backward = -1  # torch's number of the backward that used the sink last
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = self.num_features**-0.5
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, sparse: SparseInput) -> Tensor:
        """[sparse.num_bags, out_features]. ValueError if a number of `sparse` is out of bounds (CPU only)."""
        return self.sums(self.weight, self.bias, sparse)

    def sums(self, weight: Tensor, bias: Tensor | None, sparse: SparseInput) -> Tensor:
        """`forward` with these parameters."""
        transformed = torch._C._are_functorch_transforms_active()
        out: Tensor = (_Transformed if transformed else _SparseLinear).apply(weight, bias, sparse, self)  # type: ignore[no-untyped-call]
        return out

    def in_effect(self, weight: Tensor, bias: Tensor | None, sparse: SparseInput) -> tuple[Tensor, Tensor | None]:  # noqa: ARG002
        """Returns what is summed up in the place of `weight` and `bias`, shaped as they are; of the table only rows
        that the batch touches are read."""
        return weight, bias

    def prepare(self, sparse: SparseInput) -> None:
        """Prepares what `forward` needs of these bags and can be had without weights. Raises ValueError as
        `forward`."""
        kernels.plan_of(self.weight, sparse)

    def extra_repr(self) -> str:
        return f"{self.num_features}, {self.out_features}, bias={self.bias is not None}, field={self.field!r}"

    def write_gradient(self, sparse: SparseInput, grad_out: Tensor) -> tuple[Tensor | None, Tensor]:
        """The table's gradient for autograd, None if it went to a sink; and the sum of grad_out's rows, which is the
        bias' gradient."""
        if self.gradient_sink is None and self.rows_sink is not None:
            total = grad_out.new_empty(0) if self.bias is None else kernels.column_sum(grad_out)
            return self.write_compact(sparse, grad_out), total
        return self.write_in_place(partial(kernels.backward_rows, sparse, grad_out))

    def write_in_place(self, write: WriteRows) -> tuple[Tensor | None, Tensor]:
        """Writes the gradient in place: the touched rows are added up by `write`, each where it belongs in memory of
        the table's shape."""
        weight, sink = self.weight, self.gradient_sink
        if sink is None:
            grad = torch.zeros_like(weight, memory_format=torch.contiguous_format)
            return grad, write(grad, [self.num_features], _tell_nobody)[0]
        self._use_once()
        memory, borders = sink.begin(weight)
        total, sound = write(memory, borders, lambda rows: sink.written(weight, rows))
        finite = kernels.all_finite(total)
        sink.done(weight, finite if sound is True else finite & sound)
        return None, total

    def write_compact(self, sparse: SparseInput, grad_out: Tensor) -> Tensor | None:
        """The table's gradient for autograd, None if it went to the sink for rows. The touched rows are added up one
        after the other, in the order of the batch's list."""
        rows = kernels.touched_rows(sparse, grad_out)
        if self.rows_sink is None:
            grad = torch.zeros_like(self.weight, memory_format=torch.contiguous_format)
            kernels.place_rows(sparse, rows, grad)
            return grad
        self._use_once()
        self.rows_sink.take(self.weight, rows)
        return None

    def _use_once(self) -> None:
        """RuntimeError if a sink has had a gradient of this backward already."""
        backward = torch._C._current_graph_task_id()
        if backward == self._last_backward:
            raise RuntimeError(
                f"this {type(self).__name__} (field {self.field!r}) is used more than once in one backward, but its "
                "gradient goes straight into a slot that holds one use: give each use its own layer, or the batch one "
                "field with a bag for each use (data.rows.shared_tables)"
            )
        self._last_backward = backward


class _SparseLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor | None, sparse: SparseInput, layer: SparseLinear) -> Tensor:
        ctx.sparse, ctx.layer = sparse, layer
        return kernels.forward(*layer.in_effect(weight, bias, sparse), sparse)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        return _backward(ctx, grad_out)


class _Transformed(torch.autograd.Function):
    """The layer in the form that transformations of torch.func know. A call takes a third longer (torch looks into the
    signature of `forward`), so it serves them alone."""

    @staticmethod
    def forward(weight: Tensor, bias: Tensor | None, sparse: SparseInput, layer: SparseLinear) -> Tensor:
        return kernels.forward(*layer.in_effect(weight, bias, sparse), sparse)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004
        ctx.sparse, ctx.layer = inputs[2:]

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        weight: Tensor,
        bias: Tensor | None,
        sparse: SparseInput,
        layer: SparseLinear,
    ) -> tuple[Tensor, int]:
        """[tables, num_bags, out_features]."""
        if layer.members:
            return torch.stack([member(sparse) for member in layer.members]), 0
        weights = _each(weight, in_dims[0], info.batch_size)
        biases = [None] * info.batch_size if bias is None else _each(bias, in_dims[1], info.batch_size)
        return torch.stack([layer.sums(*each, sparse) for each in zip(weights, biases, strict=True)]), 0

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        return _backward(ctx, grad_out)


def _backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
    grad_out = grad_out.contiguous()
    if ctx.needs_input_grad[0]:
        grad_weight, total = ctx.layer.write_gradient(ctx.sparse, grad_out)
    else:
        grad_weight, total = None, kernels.column_sum(grad_out)
    return grad_weight, total if ctx.needs_input_grad[1] else None, None, None


def _each(tensor: Tensor, dim: int | None, count: int) -> Sequence[Tensor]:
    """Along a dimension; `count` times the whole if there is none."""
    return [tensor] * count if dim is None else tensor.unbind(dim)


def _tell_nobody(rows: int) -> None:
    pass
