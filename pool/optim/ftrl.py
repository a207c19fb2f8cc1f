"""FTRL-proximal, which makes weights sparse by L1 and has a learning rate for each coordinate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import torch
from torch import Tensor, nn

from pool import _native
from pool.kernels.reduction import NativeKernels
from pool.kernels.rule import Rule
from pool.optim.native import Group, NativeOptimizer, Pass, State, check_not_negative, check_positive

_RULE = Rule(NativeKernels(_native.ftrl, _native.ftrl_rows))


class FTRL(NativeOptimizer):
    """FTRL-proximal per coordinate, which reads and writes only rows of tables that a batch touched.

    The algorithm is number 1 of McMahan et al., "Ad click prediction: a view from the trenches", KDD 2013. lr, beta, l1
    and l2 are the paper's alpha, beta, lambda1 and lambda2. State: `linear` and `square`, the paper's z and n, shaped
    as the parameter.

    The initial weights are kept, because z starts at the value that leads to these weights. So layers that must not
    start at zero can be trained, too. Weights are a function of z, n and lr. So a touched row jumps when lr changes,
    and loses changes that a task's `after_step` has made. Raises ValueError for parameters that are not float32 on a
    CPU, and for hyperparameters out of range.
    """

    touched_only = True
    entries: ClassVar[frozenset[str]] = frozenset({"linear", "square"})

    def __init__(
        self, params: Iterable[nn.Parameter], lr: float = 0.1, beta: float = 1.0, l1: float = 0.0, l2: float = 0.0
    ) -> None:
        check_not_negative(l1=l1, l2=l2)
        check_positive(lr=lr, beta=beta)
        super().__init__(params, {"lr": lr, "beta": beta, "l1": l1, "l2": l2})

    def initial_state(self, old: Tensor, group: Group, *, is_table: bool) -> State:  # noqa: ARG002
        linear = -(old * (group["beta"] / group["lr"] + group["l2"]) + torch.sign(old) * group["l1"])
        return {"linear": linear, "square": torch.zeros_like(old)}

    def prepare_step(self, state: State, group: Group, *, is_table: bool) -> Pass:  # noqa: ARG002
        constants = [1 / group["lr"], group["beta"], group["l1"], group["l2"]]
        return Pass(_RULE, [state["linear"], state["square"]], constants)
