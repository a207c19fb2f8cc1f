"""nnue-pytorch's RangerLite: Adam with positive-negative momentum, lookahead and a stable weight decay."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from pool import _native
from pool.kernels.norm import squares_of_all
from pool.kernels.reduction import NativeKernels
from pool.kernels.rule import Rule, root
from pool.optim.adam import check_betas
from pool.optim.native import Group, NativeOptimizer, Pass, State, check_not_negative, check_number, check_positive

_LOWEST_NORM = 1e-7  # lower limit of the root of the mean variance


class RangerLite(NativeOptimizer):
    """RangerLite to float32 rounding, for float32 parameters (official-stockfish/nnue-pytorch 9f72946,
    model/optimizers/ranger_lite.py).

    Positive-negative momentum: two means of the gradient are updated in turns (Xie et al., arXiv 2103.17182, where
    `momentum` is k). Without `positive_negative` there is one mean, `odd_mean`, as in Adam.

    Lookahead: every `lookahead_steps` steps the weights become the slow weights, moved by a share `lookahead_alpha` of
    the way to the current ones (Zhang et al., arXiv 1907.08610). Slow and current weights are the same then.

    Weight decay is divided by the root of the mean variance of all parameters, unless `stable_weight_decay` is off.

    State: `step`; `odd_mean` and `even_mean`, each updated in such steps; `exp_avg_sq`; `slow`; `square_norm`, the
    decayed mean of the squared norm of the whole gradient, which is the sum of `exp_avg_sq` over all parameters. Raises
    ValueError for other parameters, and for hyperparameters out of range.

    The slow weights are the ones to validate, average and export. The weights are the slow weights after steps that
    are multiples of `lookahead_steps`. Steps are counted by parameter, so all parameters must have a gradient in
    each step.
    """

    on_devices = True
    needs_global_norm = True
    added: ClassVar[Mapping[str, Any]] = {"positive_negative": True, "stable_weight_decay": True}
    entries: ClassVar[frozenset[str]] = frozenset(
        {"step", "odd_mean", "even_mean", "exp_avg_sq", "slow", "square_norm"}
    )

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-7,
        weight_decay: float = 0.0,
        momentum: float = 1.0,
        lookahead_steps: int = 5,
        lookahead_alpha: float = 0.5,
        positive_negative: bool = True,
        stable_weight_decay: bool = True,
    ) -> None:
        check_not_negative(lr=lr, weight_decay=weight_decay, momentum=momentum)
        check_positive(eps=eps)
        check_betas(betas)
        if not isinstance(lookahead_steps, int) or lookahead_steps < 1:
            raise ValueError(f"lookahead_steps must be a whole number from 1 on, not {lookahead_steps!r}")
        if not 0 < check_number("lookahead_alpha", lookahead_alpha) <= 1:
            raise ValueError(f"lookahead_alpha must be above 0 and at most 1, not {lookahead_alpha!r}")
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "lookahead_steps": lookahead_steps,
            "lookahead_alpha": lookahead_alpha,
            "positive_negative": positive_negative,
            "stable_weight_decay": stable_weight_decay,
        }
        super().__init__(params, defaults)
        self._squares, self._size = 0.0, 1

    @property
    def shown_every(self) -> int:
        return math.lcm(*(group["lookahead_steps"] for group in self.param_groups))

    def initial_state(self, old: Tensor, group: Group, *, is_table: bool) -> State:  # noqa: ARG002
        means = {name: torch.zeros_like(old) for name in ("odd_mean", "even_mean", "exp_avg_sq")}
        # square_norm is no tensor, because torch converts loaded tensors to the dtype of their parameter
        return {"step": torch.zeros(()), **means, "slow": old.clone(), "square_norm": 0.0}

    def set_global_norm(self, squares: float, size: int) -> None:
        self._squares, self._size = squares, size

    def prepare_step(self, state: State, group: Group, *, is_table: bool) -> Pass:  # noqa: ARG002
        """Advances the step count and the squared norm. Returns how the step is made, with lookahead if it is due."""
        beta1, beta2 = group["betas"]
        rate = group["lr"]
        state["step"] += 1
        state["square_norm"] = beta2 * state["square_norm"] + (1 - beta2) * self._squares
        step = int(state["step"])
        correction = 1 - beta2**step
        variance = math.sqrt(state["square_norm"] / correction / self._size)
        norm = max(variance, _LOWEST_NORM) if group["stable_weight_decay"] else 1.0
        mean, other, k, keep, bias = state["odd_mean"], state["even_mean"], group["momentum"], beta1**2, step + step % 2
        if not group["positive_negative"]:
            k, keep, bias = 0.0, beta1, step
        elif step % 2 == 0:
            mean, other = other, mean
        constants = [
            1 - keep,
            beta2,
            1 - beta2,
            1 + k,
            k,
            rate / (1 - beta1**bias) / math.hypot(1 + k, k),
            1 / math.sqrt(correction),
            group["eps"],
            1 - group["weight_decay"] * rate / norm,
        ]
        if step % group["lookahead_steps"]:
            return Pass(_STEP_RULE, [mean, state["exp_avg_sq"], other], constants)
        alpha = group["lookahead_alpha"]
        return Pass(_LOOKAHEAD_RULE, [mean, state["exp_avg_sq"], state["slow"], other], [*constants, alpha, 1 - alpha])

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        self.set_global_norm(squares_of_all(gradients), sum(parameter.numel() for parameter in parameters))
        super().step(closure)


def _step(old: Tensor, states: Sequence[Tensor], gradient: Tensor, constants: Sequence[float]) -> Sequence[Tensor]:
    """Computes a step without lookahead by torch's operations. Returns the new weights, mean and squares."""
    mean_rate, square_keep, square_rate, mean_share, other_share, step_size, root_scale, epsilon, shrink = constants
    mean, square, other = states
    weights = old * shrink
    square = square * square_keep + gradient * square_rate * gradient
    mean = mean + (gradient - mean) * mean_rate
    both = mean * mean_share - other * other_share
    return weights - both * step_size / (root(square) * root_scale + epsilon), mean, square


def _step_with_lookahead(
    old: Tensor, states: Sequence[Tensor], gradient: Tensor, constants: Sequence[float]
) -> Sequence[Tensor]:
    """Computes a step with lookahead by torch's operations. Returns the new weights, mean, squares and slow weights."""
    *of_step, fast_share, slow_share = constants
    mean, square, slow, other = states
    weights, mean, square = _step(old, [mean, square, other], gradient, of_step)
    weights = weights * fast_share + slow * slow_share
    return weights, mean, square, weights


_STEP_RULE = Rule(NativeKernels(_native.ranger_lite, _native.ranger_lite_rows), "RangerLite", _step)
_LOOKAHEAD_RULE = Rule(
    NativeKernels(_native.ranger_lite_lookahead, _native.ranger_lite_lookahead_rows),
    "RangerLiteLookahead",
    _step_with_lookahead,
)
