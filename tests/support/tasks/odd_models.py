"""The torch part of the odd task, and odd optimizers and schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from torch.optim.lr_scheduler import LRScheduler

from pool.nn.sparse_linear import SparseLinear
from tests.support.toy_model import ToyTask


class Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.zeros(2))
        self.second = nn.Parameter(torch.zeros(3, dtype=torch.complex64))


class WithBuffer(nn.Linear):
    def __init__(self, buffer: torch.Tensor) -> None:
        super().__init__(2, 2)
        self.register_buffer("extra", buffer)


class Many(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.all = nn.ParameterList([nn.Parameter(torch.zeros(1)) for _ in range(20_000)])


class Sharing(nn.Module):
    """Two layers, of whose memory `share` makes something."""

    def __init__(self, share: Callable[[Any], object]) -> None:
        super().__init__()
        self.table, self.one, self.other = SparseLinear(10, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        share(self)


def columns(model: Any) -> None:
    """One matrix of which each layer has its half: no number is of both."""
    both = torch.zeros(4, 8)
    model.one.weight, model.other.weight = nn.Parameter(both[:, :4]), nn.Parameter(both[:, 4:])


def frozen() -> nn.Module:
    return nn.Linear(2, 2).requires_grad_(requires_grad=False)


MODELS: dict[str, Callable[[], Any]] = {
    "good": lambda: nn.Linear(2, 2),
    "none": lambda: None,
    "a class": lambda: nn.Linear,
    "without parameters": nn.ReLU,
    "frozen": frozen,
    "without elements": lambda: nn.ParameterList([nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(3, 0))]),
    "complex": Complex,
    "buffer of complex": lambda: WithBuffer(torch.zeros(2, dtype=torch.complex128)),
    "buffer of float8": lambda: WithBuffer(torch.zeros(2, dtype=torch.float8_e4m3fn)),
    "buffer without elements": lambda: WithBuffer(torch.zeros(0)),
    "lazy": lambda: nn.LazyLinear(3),
    "half": lambda: nn.Linear(2, 2, dtype=torch.float16),
    "many": Many,
    "unknown field": lambda: nn.Sequential(SparseLinear(10, 1, field="colour")),
    "tied": lambda: Sharing(lambda model: setattr(model.other, "weight", model.one.weight)),
    "tied by data": lambda: Sharing(lambda model: setattr(model.other.weight, "data", model.one.weight.data)),
    "tied and transposed": lambda: Sharing(lambda model: setattr(model.other.weight, "data", model.one.weight.data.T)),
    "tied in part": lambda: Sharing(lambda model: setattr(model.other.bias, "data", model.one.weight.data[:, 1])),
    "a buffer of a weight": lambda: Sharing(lambda model: model.register_buffer("row", model.one.weight.detach()[1])),
    "a view of a weight": lambda: Sharing(lambda model: setattr(model, "row", model.one.weight[1])),
    "columns": lambda: Sharing(columns),
    "hooked": lambda: Sharing(lambda model: model.one.weight.register_hook(torch.zeros_like)),
    "hooked table": lambda: Sharing(lambda model: model.table.weight.register_hook(torch.zeros_like)),
    "later hooked table": lambda: Sharing(
        lambda model: model.table.weight.register_post_accumulate_grad_hook(lambda _: None)
    ),
    "table of a parametrization": lambda: Sharing(
        lambda model: weight_norm(model.table).parametrizations.weight.original1.register_hook(torch.zeros_like)
    ),
    "large table": lambda: SparseLinear(20_000 * 16, 1),
}


RAISED: dict[str, BaseException] = {
    "interrupt": KeyboardInterrupt("enough"),
    "exit": SystemExit("enough"),
    "generator": GeneratorExit(),
    "empty": ValueError(""),
    "lines": ValueError("one\ntwo\n\x1b[31mthree"),
    "group": ExceptionGroup("both", [ValueError("a"), TypeError("b")]),
    "recursion": RecursionError("too deep"),
}


class OddTask(ToyTask):
    def __init__(self, kind: str) -> None:
        self._kind = kind

    def check(self, schema: object) -> None:  # noqa: ARG002
        if self._kind in RAISED:
            raise RAISED[self._kind]

    def build_model(self) -> Any:
        return MODELS[self._kind]()


class EndingSchedule(LRScheduler):
    """Raises at its seventh step."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.rest = 7
        super().__init__(optimizer)

    def get_lr(self) -> list[float | torch.Tensor]:
        self.rest -= 1
        if self.rest < 0:
            raise LookupError("the table\nhas ended")
        return [0.1]


class EndingOptimizer(torch.optim.SGD):
    """Raises at its third step."""

    steps = 0

    def step(self, closure: Any = None) -> Any:
        self.steps += 1
        if self.steps == 3:
            raise ZeroDivisionError("float division by zero")
        return super().step(closure)


class WithoutRate(torch.optim.Optimizer):
    def __init__(self, params: Any) -> None:
        super().__init__(params, {})

    def step(self, closure: Any = None) -> Any:
        pass


class ComplexState(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["phase"] = torch.zeros_like(parameter, dtype=torch.complex64)
        return super().step(closure)


def leave(*_: Any, **__: Any) -> Any:
    raise SystemExit("enough")
