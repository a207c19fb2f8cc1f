"""A step of Adam or SparseAdam with the sum of its gradients, in one pass, on any device (`pool.kernels.fold`). All
back ends have the same bits: each operation rounds once, in the order of pool/kernels/rules.cuh."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pool import _native
from pool.kernels.backend import backend_of
from pool.kernels.cuda import fold as cuda
from pool.kernels.fold import Fold, NativeKernels, run_native, sum_by_torch, sum_rows_by_torch

NATIVE = NativeKernels(_native.adam, _native.adam_rows)


class AdamTensors(NamedTuple):
    """Float32, contiguous, of one shape. `weights` become a step from `old`, which may be the same memory."""

    weights: Tensor
    old: Tensor
    mean: Tensor
    square: Tensor


@dataclass(frozen=True)
class AdamStep:
    """The settings of step number `step`, from 1."""

    learning_rate: float
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float
    decoupled: bool
    step: float

    @property
    def numbers(self) -> AdamNumbers:
        decay = self.learning_rate * self.weight_decay
        return AdamNumbers(
            mean_rate=1 - self.beta1,
            square_keep=self.beta2,
            square_rate=1 - self.beta2,
            step_size=self.learning_rate / (1 - self.beta1**self.step),
            root_scale=1 / math.sqrt(1 - self.beta2**self.step),
            epsilon=self.epsilon,
            decay=0.0 if self.decoupled else self.weight_decay,
            shrink=1 - decay if self.decoupled else 1.0,
        )


class AdamNumbers(NamedTuple):
    """The constants of one step, as pool/kernels/rules.cuh names them."""

    mean_rate: float
    square_keep: float
    square_rate: float
    step_size: float
    root_scale: float
    epsilon: float
    decay: float
    shrink: float


def adam(tensors: AdamTensors, job: Fold, step: AdamStep, threads: int = 1) -> None:
    """Steps the weights; queued, on a device. `threads`: on a CPU. With `job.touched_only` (SparseAdam) rows that no
    gradient has are neither read nor written."""
    match backend_of(tensors.weights.device):
        case "cpu":
            run_native(NATIVE, tensors, job, threads, asdict(step))
        case "cuda":
            weights, old, mean, square = tensors
            scaled = [job.scale, *step.numbers]
            if job.is_of_rows:
                rows = [job.first_row, int(job.touched_only)]
                cuda.adam_rows([weights, mean, square], old, job.gradients, job.lists, job.places, scaled, rows)
            else:
                cuda.adam([weights, mean, square], old, job.gradients, job.places, scaled)
        case "torch":
            adam_by_torch(tensors, job, step.numbers)


def adam_by_torch(tensors: AdamTensors, job: Fold, numbers: Sequence[float]) -> None:
    """Steps the weights by torch's operations; nothing waits for the device."""
    weights, old, mean, square = tensors
    step = AdamNumbers(*numbers)
    if not job.is_of_rows:
        stepped = _stepped(old, mean, square, sum_by_torch(job) * job.scale, step)
        for place, new in zip((weights, mean, square), stepped, strict=True):
            place.copy_(new)
        return
    total = sum_rows_by_torch(weights, job)
    stepped = _stepped(old, mean, square, total.rows * job.scale, step)
    for place, new in zip((weights, mean, square), stepped, strict=True):
        place.copy_(torch.where(total.there, new, place) if job.touched_only else new)


def _stepped(
    old: Tensor, mean: Tensor, square: Tensor, gradient: Tensor, step: AdamNumbers
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns new weights, mean and square."""
    gradient = gradient + old * step.decay
    weights = old * step.shrink
    mean = mean + (gradient - mean) * step.mean_rate
    square = square * step.square_keep + gradient * step.square_rate * gradient
    root = square.double().sqrt().float()  # rounded correctly, which not every library's root of a float is
    return weights - mean * step.step_size / (root * step.root_scale + step.epsilon), mean, square
