"""Sums of gradients in host memory, along the tree (I2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pool import _native
from pool.kernels.addend import Addend
from pool.kernels.threads import MEMORY_BOUND, worthwhile
from pool.kernels.tree import tree_sum


def fold(out: Tensor, addends: Sequence[Addend], *, scale: float, first_row: int, touched_only: bool) -> None:
    """As `PieceMemory.fold`, in one pass over memory."""
    places = [addend.place for addend in addends]
    threads = worthwhile(out.numel(), MEMORY_BOUND)
    rows = [(addend.gradient, addend.touched) for addend in addends if addend.touched is not None]
    if rows:
        assert len(rows) == len(addends), "rows of a table, and all of it"
        _native.fold_rows(
            out, rows, places=places, scale=scale, first_row=first_row, touched_only=touched_only, threads=threads
        )
    elif out.dtype == torch.float32:
        sources = [addend.gradient.view(-1) for addend in addends]
        _native.fold(out.view(-1), sources, places=places, scale=scale, threads=threads)
    else:  # the native kernel knows no other type
        total = tree_sum(places, [addend.gradient for addend in addends], torch.add)
        out.copy_(total if scale == 1.0 else total * scale)
