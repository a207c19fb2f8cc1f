"""The sparse layer with atomic additions (atomic.cu), compiled and launched as the product's kernels are."""

from __future__ import annotations

import ctypes
import importlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pool.kernels.cuda.compiler import Compiler, Source
from pool.kernels.cuda.launcher import packed_arguments
from pool.nn.batch import SparseInput

HERE = Path(__file__).parent
THREADS = 128
_INDEX = {torch.uint16: "unsigned short", torch.uint32: "unsigned"}


def source(index: str) -> Source:
    """`index`: C's type of the features' numbers."""
    return Source.of(HERE / "atomic.cu", INDEX=index)


class AtomicLayer:
    """Forward and backward of one batch."""

    def __init__(self, table: Tensor, sparse: SparseInput) -> None:
        """Both on a CUDA device. Raises ImportError, CompileError, RuntimeError."""
        self._driver: Any = importlib.import_module("cuda.bindings.driver")
        architecture = "sm_{}{}".format(*torch.cuda.get_device_capability(table.device))
        program = self._call(
            "cuModuleLoadData", Compiler(architecture, None).compile(source(_INDEX[sparse.features.dtype]))
        )
        self._gather, self._scatter = (
            self._call("cuModuleGetFunction", program, name) for name in (b"gather", b"scatter")
        )
        self._table, self._sparse = table, sparse
        self.gradient = torch.zeros_like(table)
        self.out = table.new_empty(sparse.num_bags, table.shape[1])

    def forward(self) -> Tensor:
        self._launch(self._gather, self._table, self.out)
        return self.out

    def backward(self, gradient: Tensor) -> Tensor:
        """[rows, columns] of the table."""
        self.gradient.zero_()
        self._launch(self._scatter, gradient, self.gradient)
        return self.gradient

    def _launch(self, function: Any, source: Tensor, to: Tensor) -> None:
        sparse = self._sparse
        packed = packed_arguments([source, sparse.features, sparse.offsets, to, source.shape[1]])
        stream = torch.cuda.current_stream(source.device).cuda_stream
        grid, block = (sparse.num_bags, 1, 1), (THREADS, 1, 1)
        self._call("cuLaunchKernel", function, *grid, *block, 0, stream, ctypes.addressof(packed), 0)

    def _call(self, function: str, *arguments: Any) -> Any:
        status, *values = getattr(self._driver, function)(*arguments)
        if status != self._driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"{function}: {status.name}")
        return values[0] if values else None
