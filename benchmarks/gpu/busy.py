"""Work of some seconds that changes the first bytes of a device's memory all the time."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from pool.kernels.cuda.compiler import Source
from pool.kernels.cuda.launcher import Extent, launch_kernel

SOURCE = Source.of(Path(__file__).with_suffix(".cu"), BFLOAT16=0, WIDTH=1)
_CYCLES = 1 << 30
_KERNELS = 16
_ADDITIONS = 20_000


def keep_busy(memory: Tensor) -> None:
    """Queues it. Raises CompileError, RuntimeError."""
    if memory.device.type == "cuda":
        for _ in range(_KERNELS):
            launch_kernel(memory.device, SOURCE, "count_up", Extent(1, 1), memory, _CYCLES)
    else:
        for _ in range(_ADDITIONS):
            memory[:16].add_(1)
