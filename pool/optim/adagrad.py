"""Row-wise Adagrad: its state has one number for each row of a table, instead of one for each weight."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from torch import Tensor, nn

from pool import _native
from pool.kernels.reduction import NativeKernels
from pool.kernels.rule import Rule
from pool.optim.native import Group, NativeOptimizer, Pass, State, check_not_negative, check_positive

_RULE = Rule(NativeKernels(_native.adagrad, _native.adagrad_rows))


class RowwiseAdagrad(NativeOptimizer):
    """Row-wise Adagrad for tables, of which only rows touched by the batch are read and written.

    Parameters that are no tables are stepped as by torch.optim.Adagrad with lr_decay = 0.

    A row's accumulator adds up the mean of the squares of its gradient (Gupta, Bengio and Weston, JMLR 15, 2014;
    Naumov et al., arXiv 1906.00091). The row moves by lr * gradient / (sqrt(accumulator) + eps). State: `sum`,
    [rows, 1] for a table, else shaped as the parameter. Weight decay is added to the gradient, so it reaches touched
    rows only. Raises ValueError for parameters that are not float32 on a CPU, and for hyperparameters out of range.
    For changes of a table in a task's `after_step` the rule of SparseAdam holds.
    """

    touched_only = True
    entries: ClassVar[frozenset[str]] = frozenset({"sum"})

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float = 1e-2,
        eps: float = 1e-10,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
    ) -> None:
        check_not_negative(lr=lr, weight_decay=weight_decay, initial_accumulator_value=initial_accumulator_value)
        check_positive(eps=eps)
        defaults = {
            "lr": lr,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
        }
        super().__init__(params, defaults)

    def initial_state(self, old: Tensor, group: Group, *, is_table: bool) -> State:
        shape = (len(old), 1) if is_table else old.shape
        return {"sum": old.new_full(shape, group["initial_accumulator_value"])}

    def prepare_step(self, state: State, group: Group, *, is_table: bool) -> Pass:  # noqa: ARG002
        return Pass(_RULE, [state["sum"]], [group["lr"], group["eps"], group["weight_decay"]])
