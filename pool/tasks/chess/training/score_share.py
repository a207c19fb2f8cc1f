"""Computes lambda, the score's share of the loss's target (the rest is the game's result): a schedule over the steps,
and noise around it.

The noise depends on run.model_seed, the step and the batch alone. Any worker draws the same, and so does a resumed run.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch
from torch import Tensor

from pool.config.parts import find_part, first_steps
from pool.nn.generators import create_generator
from pool.task.task import Progress
from pool.tasks.chess.training.config import LossConfig

_BLOCK = 1024  # steps whose random numbers are drawn at once


class LambdaAtStep(NamedTuple):
    """The values of the schedule at one step."""

    base: float  # lambda
    jitter: float  # factor of loss.lambda_jitter


def lambda_at(config: LossConfig, progress: Progress) -> LambdaAtStep:
    """Returns lambda, without noise, and the factor of the noise at a step of the schedule."""
    if not config.lambda_parts:
        return LambdaAtStep(config.lambda_start + (config.lambda_end - config.lambda_start) * progress.fraction, 1.0)
    begins = first_steps(config.lambda_parts)
    index = find_part(begins, progress.step)
    part = config.lambda_parts[index]
    steps = progress.total_steps - begins[index] if part.steps is None else part.steps
    fraction = min(1.0, (progress.step - begins[index]) / max(1, steps))
    if part.curve == "cosine":
        fraction = (1 - math.cos(math.pi * fraction)) / 2
    end = part.start if part.end is None else part.end
    first_factor, last_factor = part.jitter
    return LambdaAtStep(
        part.start + (end - part.start) * fraction, first_factor + (last_factor - first_factor) * fraction
    )


def score_share(config: LossConfig, progress: Progress, like: Tensor) -> float | Tensor:
    """Returns lambda of a batch: one number, or [B] if each sample has noise of its own, with dtype and device of
    `like` [B]. There is no noise in validations."""
    base, factor = lambda_at(config, progress)
    jitter = config.lambda_jitter
    if progress.seed is None or not (jitter.step or jitter.sample):
        return base
    if torch._C._are_functorch_transforms_active():  # even where the factor is 0, so that all steps behave alike
        raise RuntimeError("a random operation: loss.lambda_jitter draws for each member")
    if not factor:
        return base
    if jitter.step:
        base += factor * jitter.step * lambda_noise(progress.seed, progress.step, jitter.step_keep)
    if jitter.sample:
        return (torch.randn_like(like) * (factor * jitter.sample) + base).clamp_(0, 1)
    return min(1.0, max(0.0, base))


def lambda_noise(seed: int, step: int, keep: float) -> float:
    """Returns the value at a step of the autoregressive process x = keep x' + sqrt(1 - keep^2) n. Here x' is the value
    at the step before, 0 at first, and n is drawn from N(0, 1)."""
    return _cached_noise(seed, keep).at(step)


class _NoiseSequence:
    """Computes `lambda_noise` in blocks of steps. It keeps the last block, as the next one continues from its end."""

    def __init__(self, seed: int, keep: float) -> None:
        self._seed, self._keep = seed, keep
        self._number, self._block = -1, [0.0]

    def at(self, step: int) -> float:
        """Returns the value at a step. Blocks before the one that is kept are computed anew from the first."""
        number, index = divmod(step, _BLOCK)
        if number < self._number:
            self._number, self._block = -1, [0.0]
        while self._number < number:
            generator = create_generator(self._seed, f"lambda {self._number + 1}")
            drawn = torch.randn(_BLOCK, generator=generator, dtype=torch.float64).tolist()
            self._block = autoregressive(self._block[-1], drawn, self._keep)
            self._number += 1
        return self._block[index]


_cached_noise = functools.cache(_NoiseSequence)


def autoregressive(value: float, drawn: list[float], keep: float) -> list[float]:
    """Returns the values that follow `value` in the process of `lambda_noise`, one for each number in `drawn`."""
    noise_factor = math.sqrt(1 - keep * keep)
    values = []
    for number in drawn:
        value = keep * value + noise_factor * number
        values.append(value)
    return values
