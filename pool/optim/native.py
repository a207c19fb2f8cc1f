"""The base class of this project's optimizers, which sum gradients and step in one native pass over memory."""

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

from pool.kernels.reduction import Addend, Reduction
from pool.kernels.rule import Rule, step

Group = Mapping[str, Any]
State = dict[str, Any]

_LOWEST, _HIGHEST = 1.18e-38, 3.4e38  # about the smallest and largest normal numbers of float32


@dataclass(frozen=True)
class Pass:
    """How a parameter is stepped: the rule, the tensors of its state, and the constants of this step."""

    rule: Rule
    states: Sequence[Tensor]
    constants: Sequence[float]


class NativeOptimizer(torch.optim.Optimizer):
    """Base class of optimizers for float32 parameters on a CPU, some also on an accelerator.

    `step` takes gradients from `.grad`, as every optimizer does. The pool calls `reduce_and_step` instead, which takes
    the gradients of batches where they lie in memory and adds them up. Both give the same bits, for any number of
    threads. The attribute `tables` is set by the caller and names the parameters that are tables, whose gradients
    have touched rows only. A table may be stepped in several parts, each of some rows. Raises ValueError for other
    parameters.
    """

    touched_only: ClassVar[bool] = False  # whether a step never changes untouched rows of a table
    on_devices: ClassVar[bool] = False  # steps parameters on an accelerator, too, with the same bits
    needs_global_norm: ClassVar[bool] = False  # needs the norm of the whole gradient before each step
    added: ClassVar[Mapping[str, Any]] = {}  # settings that older states lack, with the value that these imply
    entries: ClassVar[frozenset[str]]  # keys of a parameter's state

    # torch's own, without the decorator that hides them from torch.compile: it imports torch._dynamo, 1 s of imports
    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)

    def __init__(self, params: Iterable[nn.Parameter], defaults: dict[str, Any]) -> None:
        self._numbers = frozenset(defaults)  # names of a group's settings; torch adds some of its own
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
        """The interval in steps at whose multiples the weights may be validated, averaged and exported."""
        return 1

    @abstractmethod
    def initial_state(self, old: Tensor, group: Group, *, is_table: bool) -> State:
        """Returns the initial state of a parameter, whose weights are `old` before its first step."""

    @abstractmethod
    def prepare_step(self, state: State, group: Group, *, is_table: bool) -> Pass:
        """Advances the step count in `state`, and returns the rule, tensors and constants of a parameter's next
        step."""

    def set_global_norm(self, squares: float, size: int) -> None:
        """Sets the norm of the next step's whole gradient. Called for optimizers with `needs_global_norm` only.

        `squares`: sum of the squares of the gradient's numbers. `size`: how many numbers these are.
        """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Steps every parameter that has a gradient, of tables all rows. Raises TypeError for a closure."""
        if closure is not None:
            raise TypeError("this optimizer takes no closure")
        for parameter in self._group_of:
            if parameter.grad is not None:
                rows = np.arange(len(parameter), dtype=np.uint32) if parameter in self.tables else None
                self.reduce_and_step(parameter, parameter.data, [Addend(0, parameter.grad, rows)])

    @torch.no_grad()
    def reduce_and_step(
        self,
        parameter: nn.Parameter,
        old: Tensor,
        gradients: Sequence[Addend],
        *,
        first_row: int = 0,
        scale: float = 1.0,
    ) -> None:
        """Adds up gradients of batches along the reduction tree, multiplies by `scale`, and steps the parameter from
        `old`.

        The new weights are written to the parameter. All tensors are contiguous and shaped as the parameter, and
        `old` may be the parameter itself. For gradients of some rows, `first_row` is the number of the parameter's
        first row in the whole table.
        """
        self._opt_called = True  # schedulers ask for it
        job = Reduction(gradients, scale, first_row, self.touched_only)
        is_table = job.is_of_rows or parameter in self.tables
        group = self._group_of[parameter]
        state: State = self.state[parameter]
        if not state:
            state.update(self.initial_state(old, group, is_table=is_table))
        how = self.prepare_step(state, group, is_table=is_table)
        step(how.rule, parameter.data, old, how.states, job, how.constants)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores a saved state, with defaults for settings that older states lack.

        Raises ValueError if the state is another optimizer's.
        """
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
    """Raises ValueError, with the name, unless every number is at least 0 and within the range of float32."""
    for name, value in numbers.items():
        if not 0 <= check_number(name, value) <= _HIGHEST:
            raise ValueError(f"{name} must not be negative: {reprlib.repr(value)}; allowed: 0 to {_HIGHEST:.3g}")


def check_positive(**numbers: float) -> None:
    """Raises ValueError, with the name, unless every number is positive and a normal number of float32."""
    for name, value in numbers.items():
        if not _LOWEST <= check_number(name, value) <= _HIGHEST:
            raise ValueError(
                f"{name} must be positive, not {reprlib.repr(value)}; allowed: {_LOWEST:.3g} to {_HIGHEST:.3g}"
            )


def check_finite(**numbers: float) -> None:
    """Raises ValueError, with the name, unless every number is within the range of float32."""
    for name, value in numbers.items():
        if not -_HIGHEST <= check_number(name, value) <= _HIGHEST:
            raise ValueError(f"{name} must be a finite number, not {reprlib.repr(value)}; allowed: +-{_HIGHEST:.3g}")


def check_number(name: str, value: Any) -> float:
    """Returns the value, or raises ValueError if it is no number."""
    if not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, not {reprlib.repr(value)}")
    return value  # type: ignore[return-value]
