"""Which code computes a network for chess behind its inputs."""

from __future__ import annotations

import logging
from typing import Literal

from torch import Tensor

from pool.tasks.chess import fused
from pool.tasks.chess.cuda import layer_stacks

log = logging.getLogger(__name__)

Kernels = Literal["fused_first_layer", "fused", "torch"]  # model.kernels
Path = Literal["cuda", "native", "torch"]


def kernels_for(asked: Kernels, *, cuts_activations: bool) -> Kernels:
    """What serves a model: torch's operations alone have activations that fake quantization cuts off."""
    if not cuts_activations or asked == "torch":
        return asked
    log.info("fake quantization of activations has no fused kernels: torch's own operations are used")
    return "torch"


def path_of(kernels: Kernels, weight: Tensor) -> Path:
    """Kernels of pool.kernels.cuda, native code for CPUs (pool.tasks.chess.fused), or torch's own operations: for a
    network with weights like this one."""
    if kernels == "torch":
        return "torch"
    if layer_stacks.serves(weight):
        return "cuda"
    return "native" if fused.is_served(weight) else "torch"
