"""Computes the layers behind a chess network's first one as one native CPU operation: clipping, products or squares,
and the layer stacks (small layers, one stack for each output bucket). A second operation includes the first layer,
computed along the plan of the batch.

Both do the same maths as the models' plain torch code, which tests compare them with, and which serves every other
device and dtype. See pool/tasks/chess/cpu/layer_stacks.h and first_layers.h. Float32 on a CPU only. The bits do not
depend on the number of threads. The results of the two operations differ in the last digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pool import _native
from pool.kernels import sparse as kernels
from pool.kernels.sparse import SparseInput
from pool.nn.sparse_linear import SparseLinear
from pool.tasks.chess.layer_stacks import StackSpec

_MIN_SAMPLES = 2048  # per thread: work is cut into pieces of 1024, and starting a thread costs some hundred samples


def outputs(spec: StackSpec, accumulated: Tensor, parameters: Sequence[Tensor], borders: Sequence[int]) -> Tensor:
    """Computes the outputs of the layer stacks, [B]. Samples borders[b] .. borders[b + 1] belong to stack b.

    accumulated [2 * B, l1]: the first layer's output, own perspectives first. parameters: weight and bias of each
    hidden layer [S, outputs, inputs] and [S, outputs], and of the last layer [S, inputs] and [S], for S stacks.
    """
    out: Tensor = _Stacks.apply(spec, accumulated, tuple(borders), *parameters)  # type: ignore[no-untyped-call]
    return out


def supports_first_layer(spec: StackSpec, layer: SparseLinear, sparse: SparseInput) -> bool:
    """Returns whether `first_layer_outputs` can compute stacks of this form behind `layer` for these bags (the active
    features of each perspective). The bags' rows must be summed along a plan, the layer's width must be a multiple of
    32, and the first hidden layer's of 16."""
    return (
        kernels.backend_for(layer.weight) == "cpu"
        and layer.bias is not None
        and layer.weight.requires_grad
        and not torch._C._are_functorch_transforms_active()
        and _native_spec(spec).serves_first_layers(layer.out_features)
        and kernels.plan_of(layer.weight, sparse) is not None
    )


def first_layer_outputs(
    spec: StackSpec, layer: SparseLinear, sparse: SparseInput, parameters: Sequence[Tensor], borders: Sequence[int]
) -> Tensor:
    """Computes the outputs of `layer` and of the stacks behind it in one operation, [B]. The bags in `sparse` are all
    own perspectives, then all the opponents'. The other arguments are those of `outputs`."""
    out: Tensor = _WithFirstLayer.apply(  # type: ignore[no-untyped-call]
        spec, layer, sparse, tuple(borders), layer.weight, layer.bias, *parameters
    )
    return out


class _Stacks(torch.autograd.Function):
    """The autograd function of `outputs`."""

    @staticmethod
    def forward(
        ctx: Any, spec: StackSpec, accumulated: Tensor, borders: tuple[int, ...], *parameters: Tensor
    ) -> Tensor:
        samples = accumulated.shape[0] // 2
        accumulated = accumulated.contiguous()
        parameters = tuple(parameter.contiguous() for parameter in parameters)
        native = _native_spec(spec)
        memory = accumulated.new_empty(samples, native.memory_width)
        out = accumulated.new_empty(samples)
        _native.stacks_forward(
            native,
            accumulated.detach(),
            [parameter.detach() for parameter in parameters],
            borders,
            memory,
            out,
            threads=_threads(samples),
        )
        ctx.save_for_backward(accumulated, memory, *parameters)
        ctx.spec, ctx.borders = spec, borders
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        accumulated, memory, *parameters = ctx.saved_tensors
        grad_accumulated = torch.empty_like(accumulated)
        grad_parameters = [torch.empty_like(parameter) for parameter in parameters]
        _native.stacks_backward(
            _native_spec(ctx.spec),
            accumulated,
            parameters,
            ctx.borders,
            memory,
            grad.contiguous(),
            grad_parameters,
            grad_accumulated,
            threads=_threads(grad.numel()),
        )
        return None, grad_accumulated, None, *grad_parameters


class _WithFirstLayer(torch.autograd.Function):
    """The autograd function of `first_layer_outputs`. In backward the layer decides where its table's gradient is
    written."""

    @staticmethod
    def forward(
        ctx: Any,
        spec: StackSpec,
        layer: SparseLinear,
        sparse: SparseInput,
        borders: tuple[int, ...],
        weight: Tensor,
        bias: Tensor,
        *parameters: Tensor,
    ) -> Tensor:
        parameters = tuple(parameter.contiguous() for parameter in parameters)
        native = _native_spec(spec)
        table, summed_bias = layer.effective_parameters(weight, bias, sparse)
        assert summed_bias is not None
        activations = weight.new_empty(sparse.num_bags, layer.out_features)
        memory = weight.new_empty(borders[-1], native.memory_width)
        out = weight.new_empty(borders[-1])
        _native.first_layers_forward(
            _plan(weight, sparse),
            native,
            table.detach().contiguous(),
            summed_bias.detach().contiguous(),
            [parameter.detach() for parameter in parameters],
            borders,
            activations,
            memory,
            out,
            threads=_threads_along(sparse, layer),
        )
        ctx.save_for_backward(activations, memory, *parameters)
        ctx.spec, ctx.layer, ctx.sparse, ctx.borders = spec, layer, sparse, borders
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        activations, memory, *parameters = ctx.saved_tensors
        layer, sparse, native = ctx.layer, ctx.sparse, _native_spec(ctx.spec)
        plan, threads = _plan(layer.weight, sparse), _threads_along(sparse, layer)
        grad_parameters = [torch.empty_like(parameter) for parameter in parameters]
        grad_outputs = grad.new_empty(grad.numel(), ctx.spec.hidden[0].outputs)
        _native.tails_backward(
            native,
            layer.out_features,
            parameters,
            ctx.borders,
            memory,
            grad.contiguous(),
            grad_parameters,
            grad_outputs,
            threads=threads,
        )

        def write(table: Tensor, borders: Sequence[int], written: Callable[[int], None]) -> tuple[Tensor, bool]:
            column_sums = grad.new_empty(layer.out_features)

            def run(first: int, last: int) -> None:
                _native.first_layers_backward(
                    plan,
                    native,
                    parameters,
                    ctx.borders,
                    activations,
                    grad_outputs,
                    table.detach(),
                    column_sums,
                    grad_parameters[0],
                    first,
                    last,
                    threads=threads,
                )

            kernels.by_tiles(plan, borders, written, run)
            return column_sums, True

        grad_weight, grad_bias = layer.write_in_place(write)
        return None, None, None, None, grad_weight, grad_bias, *grad_parameters


def _plan(weight: Tensor, sparse: SparseInput) -> _native.SparsePlan:
    """Returns the plan along which the bags' rows are summed, which `supports_first_layer` has found."""
    plan = kernels.plan_of(weight, sparse)
    assert plan is not None
    return plan


def _threads_along(sparse: SparseInput, layer: SparseLinear) -> int:
    return kernels.choose_sum_threads(sparse.features.numel() * layer.out_features)


@lru_cache(maxsize=64)
def _native_spec(spec: StackSpec) -> _native.StackForm:
    """Converts the description of the layers to the native code's type. Results are cached."""
    hidden = [
        (each.outputs, each.outputs if each.active is None else each.active, each.activation, each.square)
        for each in spec.hidden
    ]
    return _native.StackForm(
        spec.first,
        spec.largest_sum,
        hidden,
        spec.largest_input,
        spec.all_activations,
        spec.skips,
        spec.product_factor,
        spec.product_one,
        spec.hidden_one,
    )


def _threads(samples: int) -> int:
    return max(1, min(torch.get_num_threads(), samples // _MIN_SAMPLES))
