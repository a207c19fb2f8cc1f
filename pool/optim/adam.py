"""Adam, AdamW and SparseAdam, which sum the gradients of batches and step in one native pass over memory.

SparseAdam is another algorithm: it leaves rows of a table that no batch of the step touched as they are, with their
moments.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from pool import _native
from pool.kernels.reduction import NativeKernels
from pool.kernels.rule import Rule, root
from pool.optim.native import Group, NativeOptimizer, Pass, State, check_not_negative, check_positive


class AdamNumbers(NamedTuple):
    """The constants of one step of Adam, as pool/kernels/rules.cuh uses them."""

    mean_rate: float
    square_keep: float
    square_rate: float
    step_size: float
    root_scale: float
    epsilon: float
    decay: float
    shrink: float


def adam_numbers(group: Group, step: float, epsilon: float) -> AdamNumbers:
    """Returns the constants of step number `step`, counted from 1."""
    beta1, beta2 = group["betas"]
    decoupled, decay = group["decoupled_weight_decay"], group["weight_decay"]
    return AdamNumbers(
        mean_rate=1 - beta1,
        square_keep=beta2,
        square_rate=1 - beta2,
        step_size=group["lr"] / (1 - beta1**step),
        root_scale=1 / math.sqrt(1 - beta2**step),
        epsilon=epsilon,
        decay=0.0 if decoupled else decay,
        shrink=1 - group["lr"] * decay if decoupled else 1.0,
    )


def _stepped(old: Tensor, states: Sequence[Tensor], gradient: Tensor, constants: Sequence[float]) -> Sequence[Tensor]:
    """Computes a step of Adam with torch's operations. Returns the new weights and moments."""
    step, (mean, square) = AdamNumbers(*constants), states
    gradient = gradient + old * step.decay
    weights = old * step.shrink
    mean = mean + (gradient - mean) * step.mean_rate
    square = square * step.square_keep + gradient * step.square_rate * gradient
    return weights - mean * step.step_size / (root(square) * step.root_scale + step.epsilon), mean, square


ADAM = Rule(NativeKernels(_native.adam, _native.adam_rows), "Adam", _stepped)


class Adam(NativeOptimizer):
    """torch.optim.Adam (with decoupled_weight_decay AdamW) to float32 rounding, for float32 parameters.

    Its state has the names and shapes of torch's. Raises ValueError for other parameters, and for hyperparameters
    out of range.
    """

    on_devices = True
    entries: ClassVar[frozenset[str]] = frozenset({"step", "exp_avg", "exp_avg_sq"})

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_not_negative(lr=lr, weight_decay=weight_decay)
        check_positive(eps=eps)
        check_betas(betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def initial_state(self, old: Tensor, group: Group, *, is_table: bool) -> State:  # noqa: ARG002
        return {"step": torch.zeros(()), "exp_avg": torch.zeros_like(old), "exp_avg_sq": torch.zeros_like(old)}

    def prepare_step(self, state: State, group: Group, *, is_table: bool) -> Pass:
        state["step"] += 1
        step = float(state["step"])
        epsilon = self._epsilon(group, step, is_table=is_table)
        return Pass(ADAM, [state["exp_avg"], state["exp_avg_sq"]], adam_numbers(group, step, epsilon))

    def _epsilon(self, group: Group, step: float, *, is_table: bool) -> float:  # noqa: ARG002
        """Returns the eps that the native pass adds to the root of the second moment."""
        epsilon: float = group["eps"]
        return epsilon

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores a saved state. The state of torch's Adam or AdamW is accepted, too.

        Raises ValueError if the state is another optimizer's, or uses amsgrad or maximize.
        """
        for group in state["param_groups"]:
            group.setdefault("decoupled_weight_decay", isinstance(self, AdamW))
        super().__setstate__(state)
        for group in self.param_groups:
            if group.get("amsgrad") or group.get("maximize"):
                raise ValueError("state of another optimizer than Adam: it has amsgrad or maximize")


class AdamW(Adam):
    """torch.optim.AdamW to float32 rounding: Adam with decoupled weight decay (Loshchilov and Hutter, arXiv
    1711.05101)."""

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, decoupled_weight_decay=True)


class SparseAdam(Adam):
    """torch.optim.SparseAdam to float32 rounding, which reads and writes only rows touched by the batch.

    It is for tables that are too large for dense steps. In rows that no batch touches the moments do not decay and the
    weights do not move. Unlike in Adam, epsilon is added before the bias correction. Parameters that are no tables are
    stepped as by Adam. Weight decay, which torch.optim.SparseAdam does not have, reaches touched rows only. A task that
    changes a table in `after_step` must use operations on the parameter itself and not on its `.data`, because the pool
    does not notice changes of the latter.
    """

    touched_only = True

    def _epsilon(self, group: Group, step: float, *, is_table: bool) -> float:
        epsilon: float = group["eps"]
        return epsilon / math.sqrt(1 - group["betas"][1] ** step) if is_table else epsilon


def check_betas(betas: object) -> None:
    """Raises ValueError unless `betas` is a pair of numbers from 0 to below 1."""
    if not isinstance(betas, tuple | list) or len(betas) != 2 or not all(_is_beta(beta) for beta in betas):
        raise ValueError(f"betas must be two numbers from 0 to below 1, not {reprlib.repr(betas)}")


def _is_beta(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value < 1
