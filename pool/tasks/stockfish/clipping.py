"""Keeps the weights of the small layers within what their int8 integers can say.

Transformer, PSQT and biases are never clipped: their integers are wide enough.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pool.tasks.stockfish.quantized import arch
from pool.tasks.stockfish.stacks import LayerStacks


@torch.no_grad()
def clip_weights(stacks: LayerStacks) -> None:
    """In place. Of fc_0 the sum with the shared layer is kept in range, by changing the bucket's own part."""
    limit = arch.HIDDEN_WEIGHT_LIMIT
    shared: Tensor | None = stacks.shared_weight
    if shared is None:
        stacks.fc_0_weight.clamp_(-limit, limit)
    else:
        stacks.fc_0_weight.copy_(torch.clamp(stacks.fc_0_weight, -limit - shared, limit - shared))
    stacks.fc_1_weight.clamp_(-limit, limit)
    stacks.fc_2_weight.clamp_(-arch.FC_2_WEIGHT_LIMIT, arch.FC_2_WEIGHT_LIMIT)
