"""What follows the first layer as one native operation: clipping, pairwise products and the layer stacks.

The same maths as StockfishModel's and LayerStacks' plain torch path, which is its oracle and serves every other device
and dtype; see pool/tasks/stockfish/native/layer_stacks.h. Float32 on a CPU only. The same bits for any number of
threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pool import _native
from pool.tasks.stockfish.quantized.versions import FC_1_OUT, Version

_OUTPUTS = 16  # of fc_0
_MIN_SAMPLES = 2048  # per thread: a piece is 1024, and starting a thread costs as much as some hundred samples


def fits(version: Version) -> bool:
    """Whether the native operation has this version's arithmetic, apart from what parameters hold."""
    return (
        (version.fc_0_out, version.skips, version.all_activations) == (_OUTPUTS, 1, False)
        and (version.largest_float_sum, version.largest_float_input) == (1.0, 1.0)
        and version.square_factor(0) == 127 / 128
    )


def is_served(tensor: Tensor) -> bool:
    """Whether the native operation computes on tensors like this one."""
    return tensor.device.type == "cpu" and tensor.dtype == torch.float32


def positional(accumulated: Tensor, parameters: Sequence[Tensor], borders: Sequence[int]) -> Tensor:
    """[B] outputs of the stacks, samples borders[b] .. borders[b + 1] by stack b.

    accumulated [2 * B, l1]: the first layer's output, own perspectives first. parameters: weight and bias of fc_0
    [S, 16, l1], fc_1 [S, 32, 30] and fc_2 [S, 32]; fc_0's weight with the floor of the products in it.
    """
    out: Tensor = _Stacks.apply(accumulated, tuple(borders), *parameters)  # type: ignore[no-untyped-call]
    return out


class _Stacks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, accumulated: Tensor, borders: tuple[int, ...], *parameters: Tensor) -> Tensor:
        samples = accumulated.shape[0] // 2
        accumulated = accumulated.contiguous()
        parameters = tuple(parameter.contiguous() for parameter in parameters)
        first = accumulated.new_empty(samples, _OUTPUTS)
        second = accumulated.new_empty(samples, FC_1_OUT)
        out = accumulated.new_empty(samples)
        _native.stacks_forward(
            accumulated.detach(),
            [parameter.detach() for parameter in parameters],
            borders,
            first,
            second,
            out,
            threads=_threads(samples),
        )
        ctx.save_for_backward(accumulated, first, second, *parameters)
        ctx.borders = borders
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        accumulated, first, second, *parameters = ctx.saved_tensors
        grad_accumulated = torch.empty_like(accumulated)
        grad_parameters = [torch.empty_like(parameter) for parameter in parameters]
        _native.stacks_backward(
            accumulated,
            parameters,
            ctx.borders,
            first,
            second,
            grad.contiguous(),
            grad_parameters,
            grad_accumulated,
            threads=_threads(grad.numel()),
        )
        return grad_accumulated, None, *grad_parameters


def _threads(samples: int) -> int:
    return max(1, min(torch.get_num_threads(), samples // _MIN_SAMPLES))
