"""A linear layer over bags of feature numbers: forward adds up table rows for each bag, backward adds up gradients for
each row.

A bag is the active features of one sample. The sums are those of pool.kernels.sparse. The pool sets `gradient_sink` or
`rows_sink`, so that gradients of the rows that a batch touched go straight into its gradient slot.
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
    """Receives a table's gradient in place of `weight.grad`, once for each backward of a batch."""

    def start_gradient(self, weight: Tensor) -> tuple[Tensor, Sequence[int]]:
        """Returns the memory for the gradient, with weight's shape and dtype, and the borders at which `report_written`
        is to be called.

        Borders are ascending row numbers, the last of which is the number of rows. The layer writes only rows that the
        batch touched, and reads none.
        """

    def report_written(self, weight: Tensor, rows: int) -> None:
        """Records that those of the first `rows` rows that the batch touched are written."""

    def finish_gradient(self, weight: Tensor, finite: Tensor | bool) -> None:
        """Records that all touched rows are written. `finite` (a bool, or a bool tensor of no dimension): whether all
        their numbers are finite."""


class RowsSink(Protocol):
    """Receives a table's gradient as its touched rows alone, for a device with memory of its own."""

    def accept_rows(self, weight: Tensor, rows: Tensor) -> None:
        """Receives the touched rows, [touched, out_features], in the order of `sparse.touched`. They are queued on the
        current stream."""


# Writes a table's gradient: (memory of its shape, borders, report_written) -> the sum of the output gradient's rows,
# and whether the written rows are finite if that sum is, as pool.kernels.sparse.backward_rows.
WriteRows = Callable[[Tensor, Sequence[int], Callable[[int], None]], tuple[Tensor, Tensor | bool]]


class SparseLinear(nn.Module):
    """A linear layer: out[i] = bias + sum of weight[f] over the features f of bag i, each times its value if the field
    has values.

    `field` names the sparse field of the batch that the layer reads, by which the pool knows which rows a batch
    touched. weight is [num_features, out_features], bias [out_features]. Both start uniform in +-1 /
    sqrt(num_features). With out_features a multiple of 16 each row is whole cache lines, which is up to 1.5 times as
    fast.

    Without a sink this is an ordinary layer: weight.grad is dense, zero in untouched rows. With a sink, weight gets no
    .grad, and the layer may be used only once in a backward (else RuntimeError).

    torch.func.vmap over tables computes one table after the other along the one plan of the batch. If `members` is set
    to the layers of as many models, these are called instead, and their tables need not be stacked.

    A derived class may sum other numbers than weight and bias (`effective_parameters`). The gradient is still passed to
    weight and bias.
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
        """Creates the layer with new parameters. Raises ValueError if a size is not positive."""
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
        self.members: Sequence[Callable[[SparseInput], Tensor]] = ()  # layers of the models that vmap runs at once
        self._last_backward = -1  # torch's id of the last backward that used a sink
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = self.num_features**-0.5
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, sparse: SparseInput) -> Tensor:
        """Returns the layer's output, [sparse.num_bags, out_features].

        Raises ValueError if an offset or feature number of `sparse` is out of bounds (on a CPU only).
        """
        return self.forward_with(self.weight, self.bias, sparse)

    def forward_with(self, weight: Tensor, bias: Tensor | None, sparse: SparseInput) -> Tensor:
        """Returns the layer's output, with these parameters in place of the layer's own."""
        is_transformed = torch._C._are_functorch_transforms_active()
        function = _TransformedSparseLinear if is_transformed else _SparseLinear
        out: Tensor = function.apply(weight, bias, sparse, self)  # type: ignore[no-untyped-call]
        return out

    def effective_parameters(
        self,
        weight: Tensor,
        bias: Tensor | None,
        sparse: SparseInput,  # noqa: ARG002
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the numbers that are summed up in place of `weight` and `bias`, with the same shapes.

        Of the returned table only rows that the batch touches are read, so other rows may hold anything.
        """
        return weight, bias

    def prepare(self, sparse: SparseInput) -> None:
        """Computes, before the weights are there, what `forward` needs of these bags. Raises ValueError as `forward`
        does."""
        kernels.plan_of(self.weight, sparse)

    def extra_repr(self) -> str:
        return f"{self.num_features}, {self.out_features}, bias={self.bias is not None}, field={self.field!r}"

    def write_gradient(self, sparse: SparseInput, grad_out: Tensor) -> tuple[Tensor | None, Tensor]:
        """Computes the gradients of weight and bias. Passes the table's gradient to a sink if there is one.

        Returns the table's gradient for autograd, or None if a sink has it. Returns also the bias's gradient, the sum
        of grad_out's rows (it may be empty if there is no bias).
        """
        if self.gradient_sink is None and self.rows_sink is not None:
            total = grad_out.new_empty(0) if self.bias is None else kernels.column_sum(grad_out)
            return self.write_compact(sparse, grad_out), total
        return self.write_in_place(partial(kernels.backward_rows, sparse, grad_out))

    def write_in_place(self, write: WriteRows) -> tuple[Tensor | None, Tensor]:
        """Computes the table's gradient by `write`, which adds up each touched row where it belongs in memory of the
        table's shape.

        Returns the gradient for autograd, or None if `gradient_sink` has it, and the sum of the output gradient's rows.
        """
        weight, sink = self.weight, self.gradient_sink
        if sink is None:
            grad = torch.zeros_like(weight, memory_format=torch.contiguous_format)
            return grad, write(grad, [self.num_features], _ignore_rows)[0]
        self._check_single_use()
        memory, borders = sink.start_gradient(weight)
        total, rows_finite = write(memory, borders, lambda rows: sink.report_written(weight, rows))
        finite = kernels.all_finite(total)
        if rows_finite is not True:  # a tensor, which is not read here: that would wait for the device
            finite = finite & rows_finite
        sink.finish_gradient(weight, finite)
        return None, total

    def write_compact(self, sparse: SparseInput, grad_out: Tensor) -> Tensor | None:
        """Computes the table's gradient as its touched rows, one after the other, in the order of `sparse.touched`.

        Returns the gradient for autograd, or None if `rows_sink` has it.
        """
        rows = kernels.touched_rows(sparse, grad_out)
        if self.rows_sink is None:
            grad = torch.zeros_like(self.weight, memory_format=torch.contiguous_format)
            kernels.place_rows(sparse, rows, grad)
            return grad
        self._check_single_use()
        self.rows_sink.accept_rows(self.weight, rows)
        return None

    def _check_single_use(self) -> None:
        """Raises RuntimeError if a sink has received a gradient of this backward already."""
        backward = torch._C._current_graph_task_id()
        if backward == self._last_backward:
            raise RuntimeError(
                f"this {type(self).__name__} (field {self.field!r}) is used more than once in one backward, but its "
                "gradient goes straight into a slot that holds one use: give each use its own layer, or the batch one "
                "field with a bag for each use (data.rows.shared_tables)"
            )
        self._last_backward = backward


class _SparseLinear(torch.autograd.Function):
    """The layer as an autograd function."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor | None, sparse: SparseInput, layer: SparseLinear) -> Tensor:
        ctx.sparse, ctx.layer = sparse, layer
        return kernels.forward(*layer.effective_parameters(weight, bias, sparse), sparse)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        return _backward(ctx, grad_out)


class _TransformedSparseLinear(torch.autograd.Function):
    """The layer as transformations of torch.func need it.

    A call takes a third longer than `_SparseLinear`'s, as torch inspects the signature of `forward`, so it serves them
    alone.
    """

    @staticmethod
    def forward(weight: Tensor, bias: Tensor | None, sparse: SparseInput, layer: SparseLinear) -> Tensor:
        return kernels.forward(*layer.effective_parameters(weight, bias, sparse), sparse)

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
        """Computes the layer for several tables, or several models, one after the other: [tables, num_bags,
        out_features]."""
        if layer.members:
            return torch.stack([member(sparse) for member in layer.members]), 0
        weights = _unstack(weight, in_dims[0], info.batch_size)
        biases = [None] * info.batch_size if bias is None else _unstack(bias, in_dims[1], info.batch_size)
        outputs = [layer.forward_with(*parameters, sparse) for parameters in zip(weights, biases, strict=True)]
        return torch.stack(outputs), 0

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        return _backward(ctx, grad_out)


def _backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
    """Returns the gradients of `forward`'s arguments: table and bias, None for the others. Skips those that autograd
    does not need."""
    grad_out = grad_out.contiguous()
    if ctx.needs_input_grad[0]:
        grad_weight, total = ctx.layer.write_gradient(ctx.sparse, grad_out)
    else:
        grad_weight, total = None, kernels.column_sum(grad_out)
    grad_bias = total if ctx.needs_input_grad[1] else None
    return grad_weight, grad_bias, None, None


def _unstack(tensor: Tensor, dim: int | None, count: int) -> Sequence[Tensor]:
    """Returns a tensor's slices along `dim`, or `count` times the full tensor if `dim` is None."""
    if dim is None:
        return [tensor] * count
    return tensor.unbind(dim)


def _ignore_rows(rows: int) -> None:
    pass
