"""Compares what a model and its task hold with what a call of the task's code has made of that.

The run knows a model's tensors since it was built: it loads weights into them, and carries on what is in the buffers.
Code of the task may bind others in their place: they are brought back, with the new numbers, as if they had been
changed in place. What the run can't carry on is named. It would stay behind in the process that the task was called in,
and what is computed later would depend on who computes it (I2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pool.exchange.tensors import carried, count_hooks, trained
from pool.task.attributes import COLLECTIONS, Attribute, is_generator, state_of

_KINDS = {"_parameters": "parameter", "_buffers": "buffer", "_modules": "module"}
_MOST = 1000  # numbers in one container: more are a vocabulary, no state, and to compare them would take long


@dataclass(frozen=True)
class _Table:
    """The parameters, the buffers or the modules of a module."""

    prefix: str  # of the names
    kind: str
    now: dict[str, Any]
    then: Mapping[str, Any]

    def named(self, name: str) -> str:
        return f"the {self.kind} {self.prefix}{name}"


@dataclass(frozen=True)
class _Constant:
    """A value of a model or a task that is no part of the weights and must stay as it is."""

    attribute: Attribute
    value: object
    state: object  # differs after a change in place: a tensor's version, an array's numbers, a list's length


class Bindings:
    """Holds what a model and its task have when it is made."""

    def __init__(self, model: nn.Module, held: Sequence[Attribute] = (), *, weights_change: bool = False) -> None:
        """`held`: values besides the weights, whose tensors and numbers must stay as they are. `weights_change`: what
        is called may change trained parameters."""
        self._tables = [
            _Table(f"{path}." if path else "", kind, now, dict(now))
            for path, module in model.named_modules()
            for name, kind in _KINDS.items()
            for now in (vars(module)[name],)
        ]
        self._weights_change = weights_change
        self._trained = [parameter for _, parameter in trained(model)]
        self._carried = [tensor for _, tensor in carried(model)]
        self._needs_gradient = {id(parameter): parameter.requires_grad for parameter in model.parameters()}
        named = (value for table in self._tables for value in table.then.values() if value is not None)
        self._names_of = Counter(map(id, named))
        self._hooks = {id(parameter): count_hooks(parameter) for parameter in self._trained}
        self._shapes = {id(tensor): (tensor.shape, tensor.dtype) for tensor in (*self._trained, *self._carried)}
        self._constants = [_Constant(each, each.value, _state(each.value)) for each in held if _is_state(each)]

    def settle(self, buffers: Sequence[Tensor], weights: Sequence[Tensor] = ()) -> str:
        """Brings back what a call of the task's code, and its backward, has bound anew. `buffers`, `weights`: the
        memory of what is carried, and of what is trained if it may change. What can't be carried on, in words, as
        `problem` has it; empty if there is nothing."""
        if problem := self.problem():
            return problem
        with torch.no_grad():
            for table in self._tables:
                for name, then in table.then.items():
                    if (now := table.now[name]) is not then:
                        then.copy_(now)
                        table.now[name] = then
            places = [*zip(self._carried, buffers, strict=True), *zip(self._trained, weights, strict=False)]
            for tensor, place in places:
                if tensor.data_ptr() != place.data_ptr():  # its data were set
                    new = tensor.detach()
                    tensor.data = place
                    tensor.copy_(new)
                if tensor.grad_fn is not None:  # changed in place by what has a gradient
                    tensor.detach_()
            for parameter in self._trained:
                parameter.requires_grad_()
        return ""

    def problem(self) -> str:
        """Says what can't be carried on (`lets the parameter mid.weight be trained, ...`), or nothing."""
        for table in self._tables:
            if table.now.keys() != table.then.keys():
                name = min(table.now.keys() ^ table.then.keys())
                verb = "adds" if name in table.now else "removes"
                return f"{verb} {table.named(name)}: build_model must make all that the model has"
            for name, then in table.then.items():
                now = table.now[name]
                if (now is not then or id(then) in self._shapes) and (problem := self._difference(now, then)):
                    return problem.format(table.named(name))
        return next(filter(None, map(_change, self._constants)), "")

    def _difference(self, now: Any, then: Any) -> str:
        """Compares what is bound to a name with what was; `{}` stands for that."""
        shape, dtype = self._shapes.get(id(then), ((), None))
        if not isinstance(now, Tensor) or dtype is None:
            return "puts something else in the place of {}: build_model must make what the model has"
        if now.shape != shape or now.dtype != dtype:
            was, becomes = _described(dtype, shape), _described(now.dtype, now.shape)
            return f"changes {{}} from {was} to {becomes}: its shape and dtype are those that build_model gives it"
        needed = self._needs_gradient.get(id(then))
        if needed is not None and now.requires_grad and not needed:
            return "lets {} be trained, which build_model has frozen: let build_model train it, and freeze it in loss"
        if needed and not now.requires_grad and self._weights_change:
            return "freezes {}, which no worker gets to know: freeze it in build_model"
        if now is then and needed and count_hooks(now) != self._hooks[id(then)]:
            return "changes the hooks of {}: set them in build_model, once"
        if now is not then and needed and not self._weights_change:
            return "binds {} anew: only after_step may change weights"
        if now is not then and self._names_of[id(then)] > 1:
            return "binds {} anew, which has another name, too: change it in place"
        return ""


def _described(dtype: torch.dtype, shape: Sequence[int]) -> str:
    return f"{str(dtype).removeprefix('torch.')} {' x '.join(map(str, shape)) or 'scalar'}"


def _is_state(attribute: Attribute) -> bool:
    """Tells whether a call could leave something there for the next one."""
    value = attribute.value
    if isinstance(value, np.ndarray):
        return value.size <= _MOST
    if isinstance(value, (Tensor, *COLLECTIONS)) or is_generator(value):
        return True
    return isinstance(value, int | float | np.number) and attribute.siblings <= _MOST


def _change(constant: _Constant) -> str:
    """Names what became of it, as `Bindings.problem` does."""
    path, then, now = constant.attribute.path, constant.value, constant.attribute.now
    if isinstance(then, Tensor) and now is then and then.is_leaf and then.requires_grad and then.grad is not None:
        return f"gives {path} a gradient, and nothing trains it: make it a parameter of the model"
    moved = isinstance(then, Tensor) and isinstance(now, Tensor) and now.device != then.device
    if moved or (_alike(now, then) and (_state(now),) == (constant.state,)):  # NaN is itself
        return ""
    if isinstance(then, Tensor):
        return (
            f"changes {path}, a tensor that no other process gets to know: register it as a buffer of the model "
            "(register_buffer)"
        )
    if is_generator(then):
        return (
            f"draws from {path}, of which no other process gets to know: draw from torch's, numpy's or Python's global "
            "generator, which are seeded for each batch"
        )
    if isinstance(then, COLLECTIONS):
        kind = f"length of the {type(then).__name__}"
    else:
        kind = "array" if isinstance(then, np.ndarray) else "number"
    return f"changes the {kind} {path}, which no other process gets to know: use progress, or a buffer of the model"


def _alike(now: object, then: object) -> bool:
    return now is then or (type(now) is type(then) and not isinstance(then, Tensor))


def _state(value: Any) -> object:
    if isinstance(value, Tensor):
        return 0 if value.is_inference() else value._version
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype, value.tobytes()
    if isinstance(value, COLLECTIONS):
        return len(value)
    return state_of(value) if is_generator(value) else value
