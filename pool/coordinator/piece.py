"""What one bucket holds of one parameter, in every memory that the coordinator knows: all of it, or some rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pool import _native
from pool.coordinator.actions import Source

TouchedRows = Callable[[int, str], npt.NDArray[np.unsignedinteger]]  # (batch, sparse field) -> ascending row numbers

_LEAST = 1 << 18  # numbers per thread: below, starting a thread costs more than it saves


@dataclass
class Piece:
    index: int  # of the parameter in the plan
    parameter: nn.Parameter  # what the optimizer steps
    weights: tuple[Tensor, Tensor]  # of both versions
    total: Tensor  # the sum of the step in progress
    gradients: Mapping[tuple[int, int], Tensor]  # by worker and slot
    table: str | None  # the sparse field that says which rows a batch touched
    first_row: int
    touched_rows: TouchedRows
    seen: int = 0  # batches of this step that had a gradient

    def sources(self, batches: Sequence[Source]) -> list[Tensor]:
        """The gradients of those batches that had one."""
        return [self.gradients[s.worker, s.slot] for s in batches if self.index not in s.absent]

    def touched(self, batches: Sequence[Source]) -> list[npt.NDArray[np.unsignedinteger]] | None:
        """The rows that they touched; None if this is no table."""
        if self.table is None:
            return None
        return [self.touched_rows(s.batch, self.table) for s in batches if self.index not in s.absent]

    def fold(self, batches: Sequence[Source], *, first: bool, scale: float) -> None:
        """Adds their gradients to the sum, in their order (I2), and multiplies it by `scale`."""
        before = 0 if first else self.seen
        sources, touched = self.sources(batches), self.touched(batches)
        self.seen = before + len(sources)
        if self.seen == 0:
            return
        accumulate = before > 0
        threads = max(1, min(torch.get_num_threads(), self.total.numel() // _LEAST))
        if touched is not None:
            _native.fold_rows(
                self.total,
                list(zip(sources, touched, strict=True)),
                accumulate=accumulate,
                scale=scale,
                first_row=self.first_row,
                threads=threads,
            )
        elif self.total.dtype == torch.float32:
            flat = [source.view(-1) for source in sources]
            _native.fold(self.total.view(-1), flat, accumulate=accumulate, scale=scale, threads=threads)
        else:
            _fold_any_dtype(self.total, sources, accumulate, scale)


def _fold_any_dtype(total: Tensor, sources: Sequence[Tensor], accumulate: bool, scale: float) -> None:
    """The left fold for what the native kernel has no type for."""
    for i, source in enumerate(sources):
        if i == 0 and not accumulate:
            total.copy_(source)
        else:
            total.add_(source)
    if scale != 1.0:
        total.mul_(scale)
