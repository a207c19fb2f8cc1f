"""The sparse layer with atomic additions (atomic.cu), compiled and launched as the product's kernels are."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from pool.kernels.cuda.compiler import Source
from pool.kernels.cuda.launcher import Extent, launch_kernel
from pool.kernels.cuda.sparse import INDEX
from pool.nn.batch import SparseInput

_FILE = Path(__file__).with_suffix(".cu")
_THREADS = 128  # of a block, of which there is one for each bag


def source(index: torch.dtype) -> Source:
    """`index`: of the features' numbers."""
    return Source.of(_FILE, BFLOAT16=0, WIDTH=1, INDEX=INDEX[index])


class AtomicLayer:
    """Forward and backward of one batch."""

    def __init__(self, table: Tensor, sparse: SparseInput) -> None:
        """Both on a CUDA device."""
        self._source = source(sparse.features.dtype)
        self._table, self._sparse = table, sparse
        self.gradient = torch.zeros_like(table)
        self.out = table.new_empty(sparse.num_bags, table.shape[1])

    def forward(self) -> Tensor:
        """Raises CompileError, RuntimeError."""
        self._launch("gather", self._table, self.out)
        return self.out

    def backward(self, gradient: Tensor) -> Tensor:
        """[rows, columns] of the table."""
        self.gradient.zero_()
        self._launch("scatter", gradient, self.gradient)
        return self.gradient

    def _launch(self, kernel: str, source: Tensor, to: Tensor) -> None:
        sparse, columns = self._sparse, source.shape[1]
        extent = Extent(sparse.num_bags, _THREADS)
        launch_kernel(source.device, self._source, kernel, extent, source, sparse.features, sparse.offsets, to, columns)
