"""A step of Adam or SparseAdam where parameters and gradients lie on an accelerator."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from pool.kernels.addend import Addend
from pool.kernels.cuda.folding import AdamStep
from pool.kernels.fold import arithmetic


def step_adam(
    weights: Tensor,
    old: Tensor,
    mean: Tensor,
    square: Tensor,
    gradients: Sequence[Addend],
    *,
    first_row: int,
    scale: float,
    touched_only: bool,
    learning_rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
    decoupled: bool,
    step: float,
) -> None:
    """Queues it. `touched_only`: of a table, rows that no gradient defines stay as they are."""
    numbers = AdamStep.of(
        learning_rate=learning_rate,
        beta1=beta1,
        beta2=beta2,
        epsilon=epsilon,
        weight_decay=weight_decay,
        decoupled=decoupled,
        step=step,
    ).numbers
    its, tensors = arithmetic(weights.device), [each.gradient for each in gradients]
    touched = [each.numbers for each in gradients if each.numbers is not None]
    places = [each.place for each in gradients]
    if touched:
        assert len(touched) == len(gradients), "rows of a table, and all of it"
        its.adam_rows(weights, old, mean, square, tensors, touched, places, scale, numbers, first_row, touched_only)
    else:
        its.adam(weights, old, mean, square, tensors, places, scale, numbers)
