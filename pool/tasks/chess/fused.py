"""What follows the first layer as one native operation: clipping, products or squares, and the layer stacks.

The same maths as the models' plain torch paths, which are its oracle and serve every other device and dtype; see
pool/tasks/chess/native/layer_stacks.h. Float32 on a CPU only. The same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pool import _native

_MIN_SAMPLES = 2048  # per thread: a piece is 1024, and starting a thread costs as much as some hundred samples


@dataclass(frozen=True)
class Hidden:
    """A hidden layer: its outputs, and what they enter the next layer as; see Form."""

    outputs: int
    activation: Literal["both", "crelu", "screlu"]  # both: of square * the outputs squared, then of the outputs
    active: int | None = None  # the first so many have activations; None: all
    square: float = 1.0


@dataclass(frozen=True)
class Form:
    """What follows the first layer: an activation, hidden layers, and a layer with one output; a stack of them for each
    output bucket.

    crelu: clamped to 0 .. largest_sum (of hidden layers largest_input); screlu: the same squared; pairwise: clamped,
    and the first half of the outputs multiplied by the second.
    """

    first: Literal["pairwise", "crelu", "screlu"]
    hidden: tuple[Hidden, ...]
    largest_sum: float = 1.0
    largest_input: float = 1.0
    all_activations: bool = False  # the last layer sees those of all hidden layers, not the last one's alone
    skips: int = 0  # outputs of the first hidden layer added to the result: its last; or its last but one minus its last


def is_served(tensor: Tensor) -> bool:
    """Whether the native operation computes on tensors like this one."""
    return tensor.device.type == "cpu" and tensor.dtype == torch.float32


def outputs(form: Form, accumulated: Tensor, parameters: Sequence[Tensor], borders: Sequence[int]) -> Tensor:
    """[B] outputs of the stacks, samples borders[b] .. borders[b + 1] by stack b.

    accumulated [2 * B, l1]: the first layer's output, own perspectives first. parameters: weight and bias of each
    hidden layer [S, outputs, inputs] and [S, outputs], and of the last [S, inputs] and [S].
    """
    out: Tensor = _Stacks.apply(form, accumulated, tuple(borders), *parameters)  # type: ignore[no-untyped-call]
    return out


class _Stacks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, form: Form, accumulated: Tensor, borders: tuple[int, ...], *parameters: Tensor) -> Tensor:
        samples = accumulated.shape[0] // 2
        accumulated = accumulated.contiguous()
        parameters = tuple(parameter.contiguous() for parameter in parameters)
        native = _native_form(form)
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
        ctx.form, ctx.borders = form, borders
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        accumulated, memory, *parameters = ctx.saved_tensors
        grad_accumulated = torch.empty_like(accumulated)
        grad_parameters = [torch.empty_like(parameter) for parameter in parameters]
        _native.stacks_backward(
            _native_form(ctx.form),
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


@lru_cache(maxsize=64)
def _native_form(form: Form) -> _native.StackForm:
    hidden = [
        (each.outputs, each.outputs if each.active is None else each.active, each.activation, each.square)
        for each in form.hidden
    ]
    return _native.StackForm(
        form.first, form.largest_sum, hidden, form.largest_input, form.all_activations, form.skips
    )


def _threads(samples: int) -> int:
    return max(1, min(torch.get_num_threads(), samples // _MIN_SAMPLES))
