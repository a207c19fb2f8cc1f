"""Declares torch operations, `torch.ops.sparsepool.NAME`. (torch.library.custom_op would import torch's compiler, which
takes seconds of each worker's start.)"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")

NAMESPACE = "sparsepool"
_library: Any = torch.library.Library(NAMESPACE, "DEF")  # type: ignore[no-untyped-call]


class Operation(Generic[P, R]):
    """A function that is an operation of torch, for tensors on any device; it has no derivative of its own."""

    def __init__(self, function: Callable[P, R], mutates: Sequence[str]) -> None:
        self.name = function.__name__
        schema = torch.library.infer_schema(function, mutates_args=tuple(mutates))
        _library.define(f"{self.name}{schema}")
        _library.impl(self.name, function, "CompositeExplicitAutograd")
        self._call: Any = getattr(getattr(torch.ops, NAMESPACE), self.name).default

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self._call(*args, **kwargs)
        return result

    def fake(self, function: Callable[..., R]) -> Callable[..., R]:
        """Registers what gives the result's shape and dtype alone, of the same arguments, by their places."""
        torch.library.register_fake(f"{NAMESPACE}::{self.name}", function, lib=_library)
        return function


def operation(*mutates: str) -> Callable[[Callable[P, R]], Operation[P, R]]:
    """`mutates`: names of the arguments that it writes."""
    return lambda function: Operation(function, mutates)
