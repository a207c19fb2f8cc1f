"""The scores of a factorization machine, with their gradient written down: autograd's has three times as many passes
over rows that are no whole cache lines, and the same bits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def scores(total: Tensor, bias: Tensor) -> Tensor:
    """[samples, scores]: bias + weight + |vector|^2 / 2.

    total: [samples, scores * (1 + rank)], for each score the summed weight, then the summed vector; bias: [scores].
    """
    if torch._C._are_functorch_transforms_active():  # they know no gradient that is written down
        parts = _parts(total, len(bias))
        return bias + parts[:, :, 0] + parts[:, :, 1:].square().sum(dim=2) / 2
    found: Tensor = _Scores.apply(total, bias)  # type: ignore[no-untyped-call]
    return found


def _parts(total: Tensor, num_scores: int) -> Tensor:
    return total.view(len(total), num_scores, -1)


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, total: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(total)
        weights = _parts(total, len(bias))[:, :, 0]
        squares = _parts(total.square(), len(bias))[:, :, 1:]
        return bias + weights + squares.sum(dim=2) / 2

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        (total,) = ctx.saved_tensors
        parts = _parts(total, grad.shape[1]) * grad.unsqueeze(2)
        parts[:, :, 0] = grad
        return parts.view_as(total), grad.sum(0)
