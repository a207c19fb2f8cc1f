"""Which code computes a network for chess behind its inputs."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from pool.cuda import layer_stacks
from pool.tasks.chess import fused

Kernels = Literal["fused_first_layer", "fused", "torch"]  # model.kernels
Path = Literal["cuda", "native", "torch"]


def path_of(kernels: Kernels, weight: Tensor) -> Path:
    """Kernels of pool.cuda, native code for CPUs (pool.tasks.chess.fused), or torch's own operations: for a network
    with weights like this one."""
    if kernels == "torch":
        return "torch"
    if layer_stacks.serves(weight):
        return "cuda"
    return "native" if fused.is_served(weight) else "torch"
