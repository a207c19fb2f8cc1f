"""Keeps weights within what their int8 integers can say.

Wider integers, and all biases, are never clipped.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pool.tasks.chess.training.clipping import clip_sum
from pool.tasks.stockfish.quantized.quantize import roundings
from pool.tasks.stockfish.quantized.versions import Version
from pool.tasks.stockfish.stacks import LayerStacks


@torch.no_grad()
def clip_stacks(stacks: LayerStacks) -> None:
    """In place. Of fc_0 the sum with the shared layer is kept in range, by changing the bucket's own part."""
    for name, weight in (
        ("fc_0_weight", stacks.fc_0_weight),
        ("fc_1_weight", stacks.fc_1_weight),
        ("fc_2_weight", stacks.fc_2_weight),
    ):
        low, high = _limits(stacks.version, name)
        shared: Tensor | None = stacks.shared_weight if name == "fc_0_weight" else None
        if shared is None:
            weight.clamp_(low, high)
        else:
            clip_sum(weight, shared, low, high)


@torch.no_grad()
def clip_rows(version: Version, weight: nn.Parameter) -> None:
    """In place: the rows of the first layer that are stored as int8."""
    for table in version.tables:
        if table.lowest is not None:
            low, high = _limits(version, table.weight)
            weight[table.rows].clamp_(low, high)


def _limits(version: Version, name: str) -> tuple[float, float]:
    rule = roundings(version)[name]
    low, high = rule.bounds
    return low / rule.scale, high / rule.scale
