"""`pool.kernels.fold` as operations of torch: for devices without kernels of ours, and to compare with.

Every operation rounds once, in the order of pool/kernels/cpu/optim/rules_kernel.h. No shape depends on numbers, so
nothing waits for the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pool.kernels.cuda.folding import AdamStep
from pool.kernels.tree import tree_sum


class TorchArithmetic:
    """An Arithmetic."""

    def fold(self, out: Tensor, gradients: Sequence[Tensor], places: Sequence[int], scale: float) -> None:
        out.copy_(_scaled(_sum(gradients, places), scale))

    def fold_rows(
        self,
        out: Tensor,
        gradients: Sequence[Tensor],
        touched: Sequence[Tensor],
        places: Sequence[int],
        scale: float,
        first_row: int,
        touched_only: bool,
    ) -> None:
        total = _row_sum(out, gradients, touched, places, first_row)
        scaled = _scaled(total.rows, scale)
        out.copy_(torch.where(total.there, scaled, out) if touched_only else scaled)

    def adam(
        self,
        weights: Tensor,
        old: Tensor,
        mean: Tensor,
        square: Tensor,
        gradients: Sequence[Tensor],
        places: Sequence[int],
        scale: float,
        step: Sequence[float],
    ) -> None:
        found = _stepped(old, mean, square, _sum(gradients, places) * scale, AdamStep(*step))
        for place, new in zip((weights, mean, square), found, strict=True):
            place.copy_(new)

    def adam_rows(
        self,
        weights: Tensor,
        old: Tensor,
        mean: Tensor,
        square: Tensor,
        gradients: Sequence[Tensor],
        touched: Sequence[Tensor],
        places: Sequence[int],
        scale: float,
        step: Sequence[float],
        first_row: int,
        touched_only: bool,
    ) -> None:
        total = _row_sum(weights, gradients, touched, places, first_row)
        found = _stepped(old, mean, square, total.rows * scale, AdamStep(*step))
        for place, new in zip((weights, mean, square), found, strict=True):
            place.copy_(torch.where(total.there, new, place) if touched_only else new)


class _Rows(NamedTuple):
    """A node of the tree, of a table."""

    rows: Tensor  # [rows, columns], zeros where nothing is there
    there: Tensor  # bool [rows, 1]


def _sum(gradients: Sequence[Tensor], places: Sequence[int]) -> Tensor:
    return tree_sum(places, [gradient.float() for gradient in gradients], torch.add)


def _row_sum(
    like: Tensor, gradients: Sequence[Tensor], touched: Sequence[Tensor], places: Sequence[int], first_row: int
) -> _Rows:
    assert len({numbers.dtype for numbers in touched}) == 1, "lists of one type"
    leaves = []
    for gradient, numbers in zip(gradients, touched, strict=True):
        at = numbers.to(torch.int64) - first_row
        rows = torch.zeros_like(like).index_copy_(0, at, gradient.float())
        there = torch.zeros(len(like), 1, dtype=torch.bool, device=like.device).index_fill_(0, at, True)
        leaves.append(_Rows(rows, there))
    total = tree_sum(places, leaves, _added)
    return _Rows(total.rows + 0.0, total.there)  # of a table a sum of -0.0 is 0.0


def _added(left: _Rows, right: _Rows) -> _Rows:
    """Where one of them has no row it is the other's, whose zero may be negative."""
    one = torch.where(left.there, left.rows, right.rows)
    return _Rows(torch.where(left.there & right.there, left.rows + right.rows, one), left.there | right.there)


def _scaled(total: Tensor, scale: float) -> Tensor:
    return total if scale == 1.0 else total * scale


def _stepped(
    old: Tensor, mean: Tensor, square: Tensor, gradient: Tensor, step: AdamStep
) -> tuple[Tensor, Tensor, Tensor]:
    """New weights, mean and square."""
    gradient = gradient + old * step.decay
    weights = old * step.shrink
    mean = mean + (gradient - mean) * step.mean_rate
    square = square * step.square_keep + gradient * step.square_rate * gradient
    root = square.double().sqrt().float()  # rounded correctly, which not every library's root of a float is
    return weights - mean * step.step_size / (root * step.root_scale + step.epsilon), mean, square
