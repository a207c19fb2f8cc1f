"""What one bucket holds of one parameter, in every memory that the coordinator knows: all of it, or some rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pool import _native
from pool.coordinator.actions import Source
from pool.optim.adam import PER_THREAD, Touched
from pool.threads import worthwhile

TouchedRows = Callable[[int, str], Touched]  # of (batch, sparse field)
Gradients = tuple[Sequence[Tensor], Sequence[Touched] | None]  # of a table: with the rows that each defines

Rows = npt.NDArray[np.int64]  # of a piece: its first is 0; ascending


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
    touched_only: bool  # the optimizer writes no other rows of a table
    seen: int = 0  # batches of this step that had a gradient
    rows: Rows = field(default_factory=lambda: np.zeros(0, np.int64))  # touched in this step, if they matter
    changed: Rows | None = None  # rows in which the two versions may differ, None: all

    def of(self, batches: Sequence[Source]) -> Gradients:
        """Of those batches that had one; rows as the batches number them, None if this is no table."""
        present = [source for source in batches if self.index not in source.absent]
        gradients = [self.gradients[source.worker, source.slot] for source in present]
        if self.table is None:
            return gradients, None
        return gradients, [self.touched_rows(source.batch, self.table) for source in present]

    def read_nbytes(self, gradients: Gradients) -> int:
        """Bytes of them that are read."""
        sources, touched = gradients
        if touched is None:
            return len(sources) * self.total.nbytes
        borders = self.first_row, self.first_row + len(self.total)
        rows = sum(int(np.diff(np.searchsorted(numbers, borders))[0]) for numbers in touched)
        return rows * self.total[0].nbytes

    def fold(self, gradients: Gradients, *, first: bool, scale: float) -> None:
        """Adds them to the sum, in their order (I2), and multiplies it by `scale`."""
        before = 0 if first else self.seen
        sources, touched = gradients
        self.note_rows(gradients, first=first)
        self.seen = before + len(sources)
        if self.seen == 0:
            return
        accumulate = before > 0
        threads = worthwhile(self.total.numel(), PER_THREAD)
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

    @property
    def by_rows(self) -> bool:
        """Only some rows of the new version are the optimizer's to write."""
        return self.touched_only and self.table is not None

    def note_rows(self, gradients: Gradients, *, first: bool) -> None:
        """Which rows the optimizer will write, if that is not all."""
        if not self.by_rows:
            return
        touched = [numbers.astype(np.int64) - self.first_row for numbers in gradients[1] or ()]
        inside = [rows[(rows >= 0) & (rows < len(self.total))] for rows in touched]
        self.rows = np.unique(np.concatenate([*([] if first else [self.rows]), *inside, np.zeros(0, np.int64)]))

    def catch_up(self, old: int, new: int) -> None:
        """Rows of the new version that the optimizer will not write become those of the old one."""
        if self.changed is None:
            self.weights[new].copy_(self.weights[old])
        else:
            rows = torch.from_numpy(np.setdiff1d(self.changed, self.rows, assume_unique=True))
            self.weights[new].index_copy_(0, rows, self.weights[old].index_select(0, rows))
        self.changed = self.rows


def _fold_any_dtype(total: Tensor, sources: Sequence[Tensor], accumulate: bool, scale: float) -> None:
    """The left fold for what the native kernel has no type for."""
    for i, source in enumerate(sources):
        if i == 0 and not accumulate:
            total.copy_(source)
        else:
            total.add_(source)
    if scale != 1.0:
        total.mul_(scale)
