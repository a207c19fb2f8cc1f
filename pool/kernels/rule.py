"""A step of an optimizer with the sum of its gradients, in one pass, on any device (`pool.kernels.fold`). All back ends
have the same bits: each operation rounds once, in the order of the rule (pool/kernels/rules.cuh, cpu/optim/rules.h)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pool.kernels.backend import backend_of
from pool.kernels.cuda import fold as cuda
from pool.kernels.fold import Fold, NativeKernels, run_native, sum_by_torch, sum_rows_by_torch, within
from pool.kernels.threads import MEMORY_BOUND, SCATTERED, worthwhile

# old weights, states, gradient, constants -> new weights, then the states that change
ByTorch = Callable[[Tensor, Sequence[Tensor], Tensor, Sequence[float]], Sequence[Tensor]]


@dataclass(frozen=True)
class Rule:
    """How an optimizer steps each number by itself."""

    native: NativeKernels
    name: str = ""  # in rules.cuh; empty for a rule of CPUs alone
    by_torch: ByTorch | None = None  # as rules.cuh does it, where neither is there


def step(
    rule: Rule,
    weights: Tensor,
    old: Tensor,
    states: Sequence[Tensor],
    job: Fold,
    constants: Sequence[float],
) -> None:
    """Makes `weights` a step from `old`, which may be the same memory; queued, on a device.

    All are float32, contiguous, of one shape; `states` as the rule has them, `constants` in the order of its fields.
    With `job.touched_only` rows that no gradient has are neither read nor written.
    """
    match backend_of(weights.device):
        case "cpu":
            run_native(rule.native, [weights, old, states], job, constants=constants, threads=_threads(weights, job))
        case "cuda" if job.is_of_rows:
            rows = [job.first_row, int(job.touched_only)]
            scaled = [job.scale, *constants]
            cuda.step_rows(rule.name, [weights, old, *states], job.gradients, job.lists, job.places, scaled, rows)
        case "cuda":
            scaled = [job.scale, *constants]
            cuda.step(rule.name, [weights, old, *states], job.gradients, job.places, scaled)
        case "torch":
            step_by_torch(rule, weights, old, states, job, constants)


def step_by_torch(
    rule: Rule, weights: Tensor, old: Tensor, states: Sequence[Tensor], job: Fold, constants: Sequence[float]
) -> None:
    """Makes the step by torch's operations; nothing waits for the device."""
    assert rule.by_torch is not None
    total = sum_rows_by_torch(weights, job) if job.is_of_rows else None
    gradient = (sum_by_torch(job) if total is None else total.rows) * job.scale
    stepped = rule.by_torch(old, states, gradient, constants)
    for place, new in zip((weights, *states), stepped, strict=False):
        place.copy_(new if total is None or not job.touched_only else torch.where(total.there, new, place))


def _threads(weights: Tensor, job: Fold) -> int:
    if not (job.is_of_rows and job.touched_only):
        return worthwhile(weights.numel(), MEMORY_BOUND)
    lists = [each.touched for each in job.addends if each.touched is not None]
    places = [within(touched, job.first_row, job.first_row + len(weights)) for touched in lists]
    return worthwhile(sum(end - begin for begin, end in places) * weights[0].numel(), SCATTERED)


def root(square: Tensor) -> Tensor:
    """Returns the square root, rounded correctly, which not every library's root of a float is."""
    return square.double().sqrt().float()
