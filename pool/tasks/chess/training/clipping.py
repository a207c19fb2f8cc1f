"""Keeps weights within limits, in place, after a step."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def clip_sum(weight: Tensor, added: Tensor, low: float, high: float) -> None:
    """Of weight + added, which is shaped as weight or broadcasts to it, by changing weight."""
    weight.copy_(torch.clamp(weight, low - added, high - added))
