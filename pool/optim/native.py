"""The base of our own optimizers: they add up their gradients themselves, in one native pass over memory."""

from __future__ import annotations

import inspect
import reprlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from pool.kernels.fold import Addend, Fold
from pool.kernels.rule import Rule, step

Group = Mapping[str, Any]
State = dict[str, Any]

_LOWEST, _HIGHEST = 1.18e-38, 3.4e38  # that float32 holds as normal numbers


@dataclass(frozen=True)
class Pass:
    """How one parameter is stepped: by a rule, with tensors of the state and the constants of the step."""

    rule: Rule
    states: Sequence[Tensor]
    constants: Sequence[float]


class NativeOptimizer(torch.optim.Optimizer):
    """Float32 parameters on a CPU, some optimizers also on an accelerator; ValueError for others.

    `step` takes the gradient from `.grad`, as any optimizer; the pool calls `fold_and_step`, which takes the gradients
    as they lie. Both give the same bits, for any number of threads. Who makes it says in `tables` which parameters are
    tables, whose gradient is made of touched rows; a table may be stepped in parts, each some rows of it.
    """

    touched_only: ClassVar[bool] = False  # whether a table's untouched rows are left alone, so that nobody writes them
    on_devices: ClassVar[bool] = False  # steps parameters on an accelerator, too, with the same bits
    whole_norm: ClassVar[bool] = False  # is given the norm of the whole gradient before each step
    added: ClassVar[Mapping[str, Any]] = {}  # settings that older states lack, with what was done then
    entries: ClassVar[frozenset[str]]  # of a parameter's state

    # torch's own, without the decorator that hides them from torch.compile: it imports torch._dynamo, 1 s of imports
    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)

    def __init__(self, params: Iterable[nn.Parameter], defaults: dict[str, Any]) -> None:
        self._numbers = frozenset(defaults)  # of a group; torch adds some of its own
        super().__init__(params, defaults)
        self.tables: frozenset[nn.Parameter] = frozenset()
        self._group_of = {parameter: group for group in self.param_groups for parameter in group["params"]}
        for parameter in self._group_of:
            if parameter.dtype != torch.float32 or not (parameter.device.type == "cpu" or self.on_devices):
                raise ValueError(
                    f"parameters must be float32 on a CPU, not {parameter.dtype} on {parameter.device}; those of "
                    "torch.optim take others"
                )

    @property
    def shown_every(self) -> int:
        """The number of steps at whose multiples the weights are to be looked at."""
        return 1

    @abstractmethod
    def first_state(self, old: Tensor, group: Group, *, is_table: bool) -> State:
        """Returns the state of a parameter before its first step, whose weights are `old`."""

    @abstractmethod
    def one_pass(self, state: State, group: Group, *, is_table: bool) -> Pass:
        """Counts the parameter's next step, and returns how it is made."""

    def take_norm(self, squares: float, size: int) -> None:
        """Takes the squares of the next step's whole gradient, added up, and how many numbers that has; of an optimizer
        with `whole_norm`."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Steps every parameter that has a gradient, all rows of tables. A closure is refused: TypeError."""
        if closure is not None:
            raise TypeError("this optimizer takes no closure")
        for parameter in self._group_of:
            if parameter.grad is not None:
                rows = np.arange(len(parameter), dtype=np.uint32) if parameter in self.tables else None
                self.fold_and_step(parameter, parameter.data, [Addend(0, parameter.grad, rows)])

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
        job = Fold(gradients, scale, first_row, self.touched_only)
        is_table = job.is_of_rows or parameter in self.tables
        group = self._group_of[parameter]
        state: State = self.state[parameter]
        if not state:
            state.update(self.first_state(old, group, is_table=is_table))
        how = self.one_pass(state, group, is_table=is_table)
        step(how.rule, parameter.data, old, how.states, job, how.constants)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Raises ValueError for what another optimizer has left."""
        for group in state["param_groups"]:
            group.update({**self.added, **group})
        super().__setstate__(state)
        name = type(self).__name__
        for group in self.param_groups:
            if missing := self._numbers - group.keys():
                raise ValueError(f"state of another optimizer than {name}: it has no {min(missing)}")
        for entries in self.state.values():
            if entries and not entries.keys() >= self.entries:
                raise ValueError(f"state of another optimizer than {name}: it has {', '.join(sorted(entries))}")
        self._group_of = {parameter: group for group in self.param_groups for parameter in group["params"]}


def check_not_negative(**numbers: float) -> None:
    """Raises ValueError that names the first that is, or is no number that float32 can hold."""
    for name, value in numbers.items():
        if not 0 <= as_number(name, value) <= _HIGHEST:
            raise ValueError(f"{name} must not be negative: {reprlib.repr(value)}; allowed: 0 to {_HIGHEST:.3g}")


def check_positive(**numbers: float) -> None:
    """Raises ValueError that names the first that is not, or is no number that float32 can hold."""
    for name, value in numbers.items():
        if not _LOWEST <= as_number(name, value) <= _HIGHEST:
            raise ValueError(
                f"{name} must be positive, not {reprlib.repr(value)}; allowed: {_LOWEST:.3g} to {_HIGHEST:.3g}"
            )


def check_finite(**numbers: float) -> None:
    """Raises ValueError that names the first that is no number that float32 can hold."""
    for name, value in numbers.items():
        if not -_HIGHEST <= as_number(name, value) <= _HIGHEST:
            raise ValueError(f"{name} must be a finite number, not {reprlib.repr(value)}; allowed: +-{_HIGHEST:.3g}")


def as_number(name: str, value: Any) -> float:
    """The value. Raises ValueError for what is no number."""
    if not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, not {reprlib.repr(value)}")
    return value  # type: ignore[return-value]
