"""Computes the mean loss of scores, taken as probabilities of winning, and its gradient. Kernels: win_rate_loss.cu.

Float32. There are three launches forward and one backward. Each run gives the same bits, as sums have a fixed order.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pool._native import structure
from pool.kernels.backend import backend_of
from pool.kernels.cuda.compiler import Source
from pool.kernels.cuda.launcher import Extent, Float, run

_FILE = Path(__file__).with_suffix(".cu")
PARTS = 128  # partial sums; as in win_rate_loss.cu
_TYPES = {
    torch.int8: "signed char",
    torch.uint8: "unsigned char",
    torch.int16: "short",
    torch.int32: "int",
    torch.float32: "float",
}


def supports(output: Tensor, score: Tensor, result: Tensor) -> bool:
    """Returns whether `win_rate_loss` can compute with these tensors: a float32 output [samples] on a device with
    kernels, and labels of a supported dtype."""
    if torch._C._are_functorch_transforms_active() or output.dtype != torch.float32 or output.ndim != 1:
        return False
    return {score.dtype, result.dtype} <= _TYPES.keys() and backend_of(output.device) == "cuda"


def win_rate_loss(
    output: Tensor, score: Tensor, result: Tensor, share: float | Tensor, settings: Sequence[float], *, weighs: bool
) -> Tensor:
    """Returns the mean loss, a scalar. `output` [samples] is in units of the net. `score` and `result` are as in the
    batch. `share` is lambda, one number or one for each sample. `settings` are numbers in the order of the kernel's
    Loss. With `weighs` samples count by their weights."""
    out: Tensor = _WinRateLoss.apply(output, score, result, share, tuple(settings), weighs)  # type: ignore[no-untyped-call]
    return out


def win_rate_forward(
    output: Tensor, score: Tensor, result: Tensor, share: float | Tensor, settings: Sequence[float], weighs: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the forward pass of `win_rate_loss`. Returns the mean, the gradient of each sample's own loss [samples],
    and the divisor that turns such a gradient into that of the mean."""
    samples = output.numel()
    losses, slopes = torch.empty_like(output), torch.empty_like(output)
    weights = torch.empty_like(output) if weighs else None
    parts, mean, total = output.new_empty(2, PARTS), output.new_empty(()), output.new_empty(())
    source = _source(score.dtype, result.dtype)
    packed_settings = structure(settings=(Float, settings))
    common_share, sample_shares = (0.0, share) if isinstance(share, Tensor) else (share, None)
    run(
        output.device, source, "win_rate_losses", Extent(samples, 1),
        output, score, result, sample_shares, common_share, packed_settings, losses, weights, slopes, samples,
    )  # fmt: skip
    run(output.device, source, "win_rate_parts", Extent(2 * PARTS, 1), losses, weights, parts, samples)
    run(output.device, source, "win_rate_mean", Extent(1, 1), parts, mean, total, int(weighs), samples)
    return mean, slopes, total


def win_rate_backward(gradient: Tensor, slopes: Tensor, total: Tensor) -> Tensor:
    """Computes the gradient of `output` from that of the mean."""
    out, source = torch.empty_like(slopes), _source(torch.int16, torch.int8)  # any types: this kernel reads no labels
    arguments = gradient, slopes, total, out, slopes.numel()
    run(slopes.device, source, "win_rate_backward", Extent(slopes.numel(), 1), *arguments)
    return out


class _WinRateLoss(torch.autograd.Function):
    """The autograd function of `win_rate_loss`."""

    @staticmethod
    def forward(
        ctx: Any,
        output: Tensor,
        score: Tensor,
        result: Tensor,
        share: float | Tensor,
        settings: tuple[float, ...],
        weighs: bool,
    ) -> Tensor:
        labels = score.contiguous(), result.contiguous()
        mean, *ctx.saved = win_rate_forward(output.contiguous(), *labels, share, settings, weighs)
        return mean

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return win_rate_backward(gradient.contiguous(), *ctx.saved), None, None, None, None, None


def _source(score: torch.dtype, result: torch.dtype) -> Source:
    return Source.of(_FILE, BFLOAT16=0, WIDTH=1, SCORE=_TYPES[score], RESULT=_TYPES[result])
