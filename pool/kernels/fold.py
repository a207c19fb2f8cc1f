"""Sums of gradients along the tree (I2), and steps of Adam with them, on a device: by our own kernels on a CUDA device,
elsewhere by torch's operations. Both have the bits of the CPU's kernels (fold and optim in
pool/kernels/cpu).

All numbers are float32 and contiguous; a gradient may be bfloat16, beside others that are not. Gradients, at least
one, have places in the tree, strictly ascending, in one node of `MOST_PLACES`. Of a table [rows, columns] they are the
touched rows alone, one after the other, numbered by `touched` (uint16 or uint32, all of one type); row r of the table
belongs to feature first_row + r.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Protocol

import torch
from torch import Tensor

from pool.kernels.cuda import folding
from pool.kernels.cuda.launcher import launcher
from pool.kernels.fold_torch import TorchArithmetic

MOST_PLACES = folding.MOST_PLACES


class Arithmetic(Protocol):
    """Queues on the current stream."""

    def fold(self, out: Tensor, gradients: Sequence[Tensor], places: Sequence[int], scale: float) -> None:
        """out = (sum of the gradients) * scale; all of one shape. `out` may be one of them."""

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
        """The same of a table: rows that no gradient has become zeros, or with `touched_only` stay."""

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
        """weights = a step from `old`, which may be the same memory, with the sum of the gradients; `step`:
        `pool.kernels.cuda.folding.AdamStep.numbers`."""

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
        """The same of a table. `touched_only`: rows that no gradient has are neither read nor written."""


class _Kernels:
    """Those of `pool.kernels.cuda`."""

    fold = staticmethod(folding.fold)
    fold_rows = staticmethod(folding.fold_rows)
    adam = staticmethod(folding.adam)
    adam_rows = staticmethod(folding.adam_rows)


@cache
def arithmetic(device: torch.device) -> Arithmetic:
    return TorchArithmetic() if launcher(device) is None else _Kernels()
