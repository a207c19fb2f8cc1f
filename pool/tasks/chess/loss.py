"""The loss of the 2022 recipe: predicted against wanted probability of winning.

Both the net's output and the entry's score become a probability by a pair of logistic curves with a
flat stretch for draws between them; see LossConfig for the formula and the meaning of each number.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pool.tasks.chess.loss_config import LossConfig


def score_weight(config: LossConfig, fraction: float) -> float:
    """Lambda at that fraction of the run: the score's share of the target, the rest is the game's result."""
    return config.lambda_start + (config.lambda_end - config.lambda_start) * fraction


def probability(score: Tensor, offset: float, scaling: float) -> Tensor:
    """Of winning, a draw counting half; score and both numbers in internal units."""
    win = torch.sigmoid((score - offset) / scaling)
    loss = torch.sigmoid((-score - offset) / scaling)
    return 0.5 * (1.0 + win - loss)


def mean_loss(output: Tensor, score: Tensor, result: Tensor, config: LossConfig, weight: float) -> Tensor:
    """Scalar. Output in units of the net; score (internal units) and result (-1, 0, 1) as in the batch, all [B]."""
    predicted = probability(output * config.output_unit, config.in_offset, config.in_scaling)
    wanted = probability(score.to(output.dtype), config.out_offset, config.out_scaling)
    outcome = (result.to(output.dtype) + 1.0) * 0.5
    target = weight * wanted + (1.0 - weight) * outcome
    return (target - predicted).abs().pow(config.exponent).mean()
