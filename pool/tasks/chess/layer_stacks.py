"""Describes the layers behind a chess network's first one: a stack of small layers for each output bucket. Chooses the
code that computes them, and calls the kernels for CUDA devices. Native code for CPUs is in
`pool.tasks.chess.fused_layers`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from pool.kernels.backend import Backend, backend_of
from pool.tasks.chess.cuda import layer_stacks, stack_spec
from pool.tasks.chess.cuda.effective_weights import ROUNDING_MODES, ParameterTransform
from pool.tasks.chess.quantization import Rounding

Kernels = Literal["fused_first_layer", "fused", "torch"]  # model.kernels


@dataclass(frozen=True)
class HiddenLayer:
    """Describes a hidden layer: the number of its outputs, and the activations that turn them into inputs of the next
    layer (see Form)."""

    outputs: int
    activation: Literal["both", "crelu", "screlu"]  # both: square * outputs ** 2, then the outputs, all clamped
    active: int | None = None  # number of first outputs that have activations; None: all
    square: float = 1.0


@dataclass(frozen=True)
class StackSpec:
    """Describes the layers behind the first one: the first layer's activation, hidden layers, and a layer with one
    output. Each output bucket has a stack of such layers.

    crelu clamps to 0 .. largest_sum (in hidden layers to largest_input). screlu squares the clamped values. pairwise
    clamps, and multiplies the first half of the outputs by the second. A value that is cut passes the gradient, also
    where it is cut to an end of the range (`pool.tasks.chess.training.fake_quantization.fake_floor`).
    """

    first: Literal["pairwise", "crelu", "screlu"]
    hidden: tuple[HiddenLayer, ...]
    largest_sum: float = 1.0
    largest_input: float = 1.0
    all_activations: bool = False  # the last layer sees all hidden layers' activations, else those of the last one
    skips: int = 0  # first hidden layer's outputs added to the result: 1: its last; 2: its last but one minus its last
    product_factor: float = 1.0  # pairwise products are multiplied by this before they are cut
    product_one: float = 0.0  # products are cut down to multiples of 1 / product_one, as integers are; 0: not cut
    hidden_one: float = 0.0  # hidden layers' activations are cut likewise before they are clamped; 0: not cut

    @cached_property
    def on_cuda(self) -> stack_spec.CudaStackSpec:
        """The same description in the type that the kernels for CUDA devices take."""
        hidden = (
            stack_spec.HiddenLayer(
                each.outputs,
                each.outputs if each.active is None else each.active,
                stack_spec.LayerActivation[each.activation.upper()],
                each.square,
            )
            for each in self.hidden
        )
        return stack_spec.CudaStackSpec(
            tuple(hidden), self.largest_input, self.all_activations, self.skips, self.hidden_one
        )


def choose_backend(kernels: Kernels, weight: Tensor) -> Backend:
    """Returns the backend ("cpu", "cuda" or "torch") that computes a network with such weights: torch unless they are
    float32, where `kernels` says so, and under functorch on a CUDA device."""
    if kernels == "torch" or weight.dtype != torch.float32:
        return "torch"
    if backend_of(weight.device) == "cuda" and torch._C._are_functorch_transforms_active():
        return "torch"
    return backend_of(weight.device)


def cuda_supports(spec: StackSpec, x: Tensor, buckets: int) -> bool:
    """Returns whether `cuda_outputs` can compute stacks of this form, one for each of `buckets`, with the inputs
    `x`."""
    return spec.on_cuda.supports and buckets <= layer_stacks.MAX_BUCKETS and layer_stacks.supports(x)


def cuda_outputs(
    spec: StackSpec,
    x: Tensor,
    extra: Tensor | None,
    borders: Sequence[int],
    parameters: Sequence[Tensor],
    shared: tuple[Tensor, Tensor] | None = None,
    changes: ParameterTransform | None = None,
) -> Tensor:
    """Computes the outputs of the layer stacks by CUDA kernels, plus `extra` [samples]. Returns [samples]. Samples
    borders[b] .. borders[b + 1] belong to stack b.

    x: [samples, inputs], the first layer's activations. parameters: weight and bias of each layer, [buckets, outputs,
    inputs] and [buckets, outputs]. shared: a weight and a bias that are added to those of the first of these layers in
    every bucket. changes: applied to the parameters after that.
    """
    return layer_stacks.layer_stacks(spec.on_cuda, x, extra, borders, parameters, shared, changes)


def make_transform(rules: Iterable[Rounding | None], factor: float = 1.0) -> ParameterTransform:
    """Returns the changes that `cuda_outputs` makes to its parameters: each is rounded by its rule, if it has one,
    and the first weight is multiplied by `factor`."""
    roundings = tuple((1.0, 0) if rule is None else (rule.scale, ROUNDING_MODES.index(rule.mode)) for rule in rules)
    is_rounded = any(mode for _, mode in roundings)
    return ParameterTransform(factor, roundings if is_rounded else ())
