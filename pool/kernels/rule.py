"""Steps an optimizer with the sum of its gradients, in one pass over memory, on any device (`pool.kernels.reduction`).

All implementations have the same bits, since each operation rounds once, in the order of the rule
(pool/kernels/rules.cuh, cpu/optim/rules.h).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pool.kernels.backend import backend_of
from pool.kernels.cuda import reduction as cuda
from pool.kernels.reduction import NativeKernels, Reduction, find_rows, run_native, sum_by_torch, sum_rows_by_torch
from pool.kernels.threads import MEMORY_BOUND, SCATTERED, choose_num_threads

# old weights, states, gradient, constants -> new weights, then the states that change
ByTorch = Callable[[Tensor, Sequence[Tensor], Tensor, Sequence[float]], Sequence[Tensor]]


@dataclass(frozen=True)
class Rule:
    """The rule by which an optimizer steps each number by itself, and its implementations."""

    native: NativeKernels
    name: str = ""  # of the rule in rules.cuh; empty for a rule that only CPUs have
    by_torch: ByTorch | None = None  # the same in torch's operations, where neither native code nor a kernel serves


def step(
    rule: Rule,
    weights: Tensor,
    old: Tensor,
    states: Sequence[Tensor],
    reduction: Reduction,
    constants: Sequence[float],
) -> None:
    """Steps weights by a rule: reduces the gradients of `reduction`, writes to `weights` the step from `old`, and
    updates `states`.

    All tensors are float32, contiguous and of one shape. `old` may be the same memory as `weights`; `states`: those of
    the rule, in its order; `constants`: in the order of the rule's fields. With `reduction.touched_only` rows that no
    gradient has are neither read nor written. A device does this asynchronously.
    """
    match backend_of(weights.device):
        case "cpu":
            run_native(
                rule.native,
                [weights, old, states],
                reduction,
                constants=constants,
                threads=_threads(weights, reduction),
            )
        case "cuda" if reduction.is_of_rows:
            rows = [reduction.first_row, int(reduction.touched_only)]
            scaled = [reduction.scale, *constants]
            cuda.step_rows(
                rule.name, [weights, old, *states], reduction.gradients, reduction.lists, reduction.leaves, scaled, rows
            )
        case "cuda":
            scaled = [reduction.scale, *constants]
            cuda.step(rule.name, [weights, old, *states], reduction.gradients, reduction.leaves, scaled)
        case "torch":
            step_by_torch(rule, weights, old, states, reduction, constants)


def step_by_torch(
    rule: Rule, weights: Tensor, old: Tensor, states: Sequence[Tensor], reduction: Reduction, constants: Sequence[float]
) -> None:
    """Does as `step` with torch's operations, on any device. Nothing waits for the device."""
    assert rule.by_torch is not None
    total = sum_rows_by_torch(weights, reduction) if reduction.is_of_rows else None
    gradient = (sum_by_torch(reduction) if total is None else total.rows) * reduction.scale
    stepped = rule.by_torch(old, states, gradient, constants)
    for place, new in zip((weights, *states), stepped, strict=False):
        place.copy_(new if total is None or not reduction.touched_only else torch.where(total.there, new, place))


def _threads(weights: Tensor, reduction: Reduction) -> int:
    if not (reduction.is_of_rows and reduction.touched_only):
        return choose_num_threads(weights.numel(), MEMORY_BOUND)
    lists = [each.touched for each in reduction.addends if each.touched is not None]
    places = [find_rows(touched, reduction.first_row, reduction.first_row + len(weights)) for touched in lists]
    return choose_num_threads(sum(end - begin for begin, end in places) * weights[0].numel(), SCATTERED)


def root(square: Tensor) -> Tensor:
    """Returns the square root in float32, correctly rounded. Not every library's root of a float32 is."""
    return square.double().sqrt().float()
