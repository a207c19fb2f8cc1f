"""The loss of chess networks: the predicted probability of winning against the wanted one.

Two logistic curves, with a flat stretch for draws between them, turn the net's output and the position's score into
probabilities. LossConfig has the formula and the meaning of each number.
"""

from __future__ import annotations

import torch
from torch import Tensor

from loader.chess.positions.entry import NO_RESULT, NO_SCORE
from loader.stream.schema import BatchSchema
from pool.nn.batch import TensorBatch
from pool.task.task import Progress
from pool.tasks.chess.cuda.win_rate_loss import supports, win_rate_loss
from pool.tasks.chess.training.config import LossConfig
from pool.tasks.chess.training.score_share import score_share

FIELD = "features"  # sparse field with two bags a sample: inputs of the side to move, and of its opponent
_MATE, _LONGEST_MATE = 32000, 245  # Stockfish's score of mate in 0, and the most plies that its scores count
_LABELS = frozenset({"score", "result"})  # dense fields that the loss needs


def num_inputs(schema: BatchSchema) -> int:
    """Returns the number of features that batches of this schema have. Raises ValueError if they are not batches of
    positions with score and result."""
    fields = {field.name: field for field in schema.sparse}
    if FIELD not in fields or fields[FIELD].bags_per_sample != 2:
        raise ValueError(f"data.source: batches have no sparse field {FIELD!r} with two bags a sample")
    if fields[FIELD].values:
        raise ValueError(f"data.source: the sparse field {FIELD!r} has values; these networks know none")
    missing = _LABELS - {field.name for field in schema.dense}
    if missing:
        raise ValueError(f"data.source: batches have no dense field {', '.join(sorted(missing))}")
    return fields[FIELD].num_features


def batch_loss(config: LossConfig, output: Tensor, batch: TensorBatch, progress: Progress) -> Tensor:
    """Computes the mean loss of a batch, a scalar. `output` [B] is that of the net."""
    if output.dtype in (torch.bfloat16, torch.float16):
        output = output.float()
    labels = replace_mate_scores(batch.dense["score"], config), batch.dense["result"]
    share = score_share(config, progress, output.detach())
    if supports(output, *labels):
        return win_rate_loss(output, *labels, share, _kernel_settings(config), weighs=config.weighs)
    return mean_loss(output, *labels, config, share)


def replace_mate_scores(score: Tensor, config: LossConfig) -> Tensor:
    """Returns scores [B] in which those of mates are replaced as LossConfig says, then in float32. A longer mate is
    worth less, and the best output is finite."""
    if not config.mate_base:
        return score
    scores = score.float()
    plies = (_MATE - scores.abs()).clamp(min=0)
    mate_scores = scores.sign() * (config.mate_base + config.mate_scale * config.mate_decay**plies)
    is_mate = (scores.abs() >= _MATE - _LONGEST_MATE) & (scores != NO_SCORE)
    return torch.where(is_mate, mate_scores, scores)


def win_probability(score: Tensor, offset: float, scaling: float) -> Tensor:
    """Returns the probability of winning, where a draw counts half. All arguments are in internal units."""
    win = torch.sigmoid((score - offset) / scaling)
    loss = torch.sigmoid((-score - offset) / scaling)
    return 0.5 * (1.0 + win - loss)


def mean_loss(output: Tensor, score: Tensor, result: Tensor, config: LossConfig, share: float | Tensor) -> Tensor:
    """Computes the mean loss, a scalar, in plain torch. `output` is in units of the net. `score` (internal units) and
    `result` (-1, 0, 1) are as in the batch, all [B]. A sample that lacks one of these two uses the other in its place.
    `share` is lambda, one number or one for each sample."""
    predicted = win_probability(output * config.output_unit, config.in_offset, config.in_scaling)
    by_score = win_probability(score.to(output.dtype), config.out_offset, config.out_scaling)
    outcome = torch.where(result == NO_RESULT, by_score, (result.to(output.dtype) + 1.0) * 0.5)
    by_score = torch.where(score == NO_SCORE, outcome, by_score)
    target = share * by_score + (1.0 - share) * outcome
    losses = (target - predicted).abs().pow(config.exponent)
    if not config.weighs:
        return losses.mean()
    if config.asymmetry:
        losses = losses * (1.0 + config.asymmetry * (predicted > target).to(losses.dtype))
    undecided = (by_score - 0.5).square() * by_score * (1.0 - by_score)
    weights = 1.0 + (2.0**config.weight_boost - 1.0) * undecided.pow(config.weight_power)
    mean: Tensor = (losses * weights).sum() / weights.sum()
    return mean


def _kernel_settings(config: LossConfig) -> list[float]:
    """Returns the loss's numbers in the order of the structure in pool/tasks/chess/cuda/win_rate_loss.cu."""
    curves = config.output_unit, config.in_offset, config.in_scaling, config.out_offset, config.out_scaling
    return [*curves, config.exponent, 2.0**config.weight_boost - 1.0, config.weight_power, config.asymmetry]
