"""Adam that adds up its own gradients: sums of batches, moments and the new weights in one native pass over memory.

SparseAdam is another algorithm: rows of a table that no batch of the step touched stay as they are, moments included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pool import _native
from pool.exchange.addend import Addend
from pool.threads import MEMORY_BOUND, worthwhile


class Adam(torch.optim.Optimizer):
    """torch.optim.Adam (AdamW with decoupled_weight_decay) to float32 rounding, for float32 parameters on a CPU.

    The state is named and shaped as torch's. `step` takes the gradient from `.grad`, as any optimizer; the pool calls
    `fold_and_step`, which takes the gradients as they lie. Both give the same bits, for any number of
    threads. ValueError for other parameters, and for hyperparameters out of range.
    """

    touched_only = False  # whether a table's untouched rows are left alone, so that nobody writes them

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
        for name, value in (("lr", lr), ("weight_decay", weight_decay)):
            if value < 0:
                raise ValueError(f"{name} must not be negative: {value}")
        if eps <= 0:
            raise ValueError(f"eps must be positive, not {eps}")
        if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas must be two numbers from 0 to below 1, not {betas}")
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)
        self._group_of = {parameter: group for group in self.param_groups for parameter in group["params"]}
        for parameter in self._group_of:
            if parameter.dtype != torch.float32 or parameter.device.type != "cpu":
                raise ValueError(f"parameters must be float32 on a CPU, not {parameter.dtype} on {parameter.device}")

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Steps every parameter that has a gradient. A closure is refused: TypeError."""
        if closure is not None:
            raise TypeError("this optimizer takes no closure")
        for parameter in self._group_of:
            if parameter.grad is not None:
                self.fold_and_step(parameter, parameter.data, [Addend(0, parameter.grad, None)])

    @torch.no_grad()
    def fold_and_step(
        self,
        parameter: nn.Parameter,
        old: Tensor,
        gradients: Sequence[Addend],
        *,
        first_row: int = 0,
        scale: float = 1.0,
    ) -> None:
        """Writes the parameter: a step from `old` with the sum of the gradients along the tree, times `scale`.

        All are shaped as the parameter, contiguous; `old` may be the parameter itself. Rows that a gradient defines are
        numbered so that the parameter's first is `first_row`.
        """
        self._opt_called = True  # schedulers ask for it
        state = self._state_of(parameter)
        state["step"] += 1
        tensors = parameter.data, old, state["exp_avg"], state["exp_avg_sq"]
        group = self._group_of[parameter]
        settings: dict[str, Any] = {
            "learning_rate": group["lr"],
            "beta1": group["betas"][0],
            "beta2": group["betas"][1],
            "epsilon": group["eps"],
            "weight_decay": group["weight_decay"],
            "decoupled": group["decoupled_weight_decay"],
            "step": float(state["step"]),
            "scale": scale,
            "places": [gradient.place for gradient in gradients],
            "threads": worthwhile(parameter.numel(), MEMORY_BOUND),
        }
        rows = [(gradient.gradient, gradient.touched) for gradient in gradients if gradient.touched is not None]
        if rows:
            assert len(rows) == len(gradients), "rows of a table, and all of it"
            _native.adam_rows(*tensors, rows, first_row=first_row, touched_only=self.touched_only, **settings)
        else:
            weights, before, mean, square = (tensor.view(-1) for tensor in tensors)
            sources = [gradient.gradient.view(-1) for gradient in gradients]
            _native.adam(weights, before, mean, square, sources, **settings)

    def _state_of(self, parameter: nn.Parameter) -> dict[str, Any]:
        state: dict[str, Any] = self.state[parameter]
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"] = torch.zeros_like(parameter, requires_grad=False)
            state["exp_avg_sq"] = torch.zeros_like(parameter, requires_grad=False)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Raises ValueError for what another optimizer has left, unless it is torch's Adam or AdamW."""
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("decoupled_weight_decay", False)
            missing = {"lr", "betas", "eps", "weight_decay"} - group.keys()
            if missing or group.get("amsgrad") or group.get("maximize"):
                what = f"no {min(missing)}" if missing else "amsgrad or maximize"
                raise ValueError(f"state of another optimizer than Adam: it has {what}")
        for entries in self.state.values():
            if entries and not entries.keys() >= {"step", "exp_avg", "exp_avg_sq"}:
                raise ValueError(f"state of another optimizer than Adam: it has {', '.join(sorted(entries))}")
        self._group_of = {parameter: group for group in self.param_groups for parameter in group["params"]}


class SparseAdam(Adam):
    """Adam for tables too large for dense steps: of a table only touched rows are read and written.

    As in torch.optim.SparseAdam, whose gradients are sparse tensors: the moments of other rows do not decay meanwhile,
    and their weights do not move. (There epsilon is added before the bias correction, here after it, as in Adam.)
    Parameters that are no tables are stepped as by Adam, and so are tables by `step`, which does not know their rows.
    Weight decay reaches touched rows only. A task that changes a table in `after_step` must do it by operations on the
    parameter itself, not on its `.data`: else the pool does not see it.
    """

    touched_only = True
