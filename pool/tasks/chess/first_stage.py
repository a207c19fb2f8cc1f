"""A sparse layer of two perspectives with what follows it, where there is a kernel for that
(pool.tasks.chess.cuda.first_stage)."""

from __future__ import annotations

import torch
from torch import Tensor

from pool.kernels.cuda import sparse_sums
from pool.nn.batch import SparseInput
from pool.nn.sparse_linear import SparseLinear
from pool.tasks.chess.cuda.first_stage import Activation, fused_first_stage

__all__ = ["Activation", "first_stage", "is_served"]


def is_served(layer: SparseLinear, sparse: SparseInput) -> bool:
    """Whether `first_stage` takes these: on a device with kernels, with a bias, without values."""
    if torch._C._are_functorch_transforms_active() or layer.bias is None or sparse.values is not None:
        return False
    return layer.gradient_sink is None and sparse_sums.serves(layer.weight)


def first_stage(layer: SparseLinear, sparse: SparseInput, highest: float, activation: Activation) -> Tensor:
    """[samples, ...]: what `activation` says of the layer's sums, clipped to 0 .. highest. Bags are all own
    perspectives, then all the opponents'."""
    assert layer.bias is not None

    def write(gradient: Tensor) -> Tensor | None:
        return layer.write_compact(sparse, gradient)

    table, bias = layer.in_effect(layer.weight, layer.bias, sparse)
    assert bias is not None
    lists = sparse.features, sparse.offsets
    return fused_first_stage(layer.weight, layer.bias, (table, bias), *lists, write, highest, activation)
