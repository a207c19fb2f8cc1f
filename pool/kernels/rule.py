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
            threads = _choose_threads(weights, reduction)
            run_native(rule.native, [weights, old, states], reduction, constants=constants, threads=threads)
        case "cuda" if reduction.has_rows:
            cuda.step_rows(
                rule.name,
                [weights, old, *states],
                reduction.gradients,
                reduction.row_numbers,
                reduction.leaves,
                [reduction.scale, *constants],
                [reduction.first_row, int(reduction.touched_only)],
            )
        case "cuda":
            numbers = [reduction.scale, *constants]
            cuda.step(rule.name, [weights, old, *states], reduction.gradients, reduction.leaves, numbers)
        case "torch":
            step_by_torch(rule, weights, old, states, reduction, constants)


def step_by_torch(
    rule: Rule, weights: Tensor, old: Tensor, states: Sequence[Tensor], reduction: Reduction, constants: Sequence[float]
) -> None:
    """Does as `step` with torch's operations, on any device. Nothing waits for the device."""
    assert rule.by_torch is not None
    total = sum_rows_by_torch(weights, reduction) if reduction.has_rows else None
    gradient = (sum_by_torch(reduction) if total is None else total.rows) * reduction.scale
    stepped = rule.by_torch(old, states, gradient, constants)
    for tensor, new in zip((weights, *states), stepped, strict=False):
        if total is not None and reduction.touched_only:
            new = torch.where(total.is_defined, new, tensor)
        tensor.copy_(new)


def _choose_threads(weights: Tensor, reduction: Reduction) -> int:
    """Returns how many threads should step the weights."""
    if not (reduction.has_rows and reduction.touched_only):
        return choose_num_threads(weights.numel(), MEMORY_BOUND)
    first_row, end_row = reduction.first_row, reduction.first_row + len(weights)
    num_rows = 0
    for addend in reduction.addends:
        if addend.touched is not None:
            begin, end = find_rows(addend.touched, first_row, end_row)
            num_rows += end - begin
    return choose_num_threads(num_rows * weights[0].numel(), SCATTERED)


def root(square: Tensor) -> Tensor:
    """Returns the square root in float32, correctly rounded. Not every library's root of a float32 is."""
    return square.double().sqrt().float()
