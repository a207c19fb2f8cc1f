"""Detects and repairs changes that a task's code makes to the tensors and attributes of its model.

The runtime knows a model's tensors from when it was built. It loads weights into them, and passes the buffers' values
on to later batches. If the task's code replaces such a tensor by another one, the old tensor is put back with the new
values. Changes that the runtime can't pass on are reported as errors. They would stay in the process in which the task
was called, and later results would depend on which process computes them (invariant I2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pool.exchange.tensors import count_hooks, trained_parameters, untrained_tensors
from pool.task.attributes import COLLECTIONS, Attribute, generator_digest, is_generator

_KINDS = {"_parameters": "parameter", "_buffers": "buffer", "_modules": "module"}
_MOST = 1000  # numbers in one container; larger ones are no state, and slow to compare


@dataclass(frozen=True)
class _Table:
    """The parameters, buffers or submodules of one module, now and when it was built."""

    prefix: str  # of the names of its entries
    kind: str
    now: dict[str, Any]
    then: Mapping[str, Any]

    def named(self, name: str) -> str:
        """Returns kind and full name of an entry for messages, e.g. "the parameter mid.weight"."""
        return f"the {self.kind} {self.prefix}{name}"


@dataclass(frozen=True)
class _Constant:
    """A value of a model or a task that is not part of the weights and must not change."""

    attribute: Attribute
    value: object
    state: object  # differs after a change in place; see `_state`


class Bindings:
    """Remembers the tensors and attributes of a model and its task, and compares them after each call of the task."""

    def __init__(self, model: nn.Module, held: Sequence[Attribute] = (), *, weights_change: bool = False) -> None:
        """Remembers the current state of a model.

        `held`: values besides the weights that must not change. `weights_change`: the code that is called may change
        trained parameters.
        """
        self._tables = [
            _Table(f"{path}." if path else "", kind, now, dict(now))
            for path, module in model.named_modules()
            for name, kind in _KINDS.items()
            for now in (vars(module)[name],)
        ]
        self._weights_change = weights_change
        self._trained = [parameter for _, parameter in trained_parameters(model)]
        self._carried = [tensor for _, tensor in untrained_tensors(model)]
        self._needs_gradient = {id(parameter): parameter.requires_grad for parameter in model.parameters()}
        named = (value for table in self._tables for value in table.then.values() if value is not None)
        self._names_of = Counter(map(id, named))
        self._hooks = {id(parameter): count_hooks(parameter) for parameter in self._trained}
        self._shapes = {id(tensor): (tensor.shape, tensor.dtype) for tensor in (*self._trained, *self._carried)}
        self._constants = [_Constant(each, each.value, _state(each.value)) for each in held if _is_state(each)]

    def settle(self, buffers: Sequence[Tensor], weights: Sequence[Tensor] = ()) -> str:
        """Puts back tensors that the task's code, or its backward, has replaced, with their new values.

        `buffers`: the memory of the tensors that are not trained. `weights`: the memory of the trained parameters,
        if these may change. Returns a description of what can't be passed on, as `problem` does, or "".
        """
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
                if tensor.data_ptr() != place.data_ptr():  # the task has set its .data
                    new = tensor.detach()
                    tensor.data = place
                    tensor.copy_(new)
                if tensor.grad_fn is not None:  # changed in place by a result with a gradient
                    tensor.detach_()
            for parameter in self._trained:
                parameter.requires_grad_()
        return ""

    def problem(self) -> str:
        """Describes the first change that can't be passed on, e.g. "lets the parameter mid.weight be trained, ...";
        "" if none."""
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
        """Describes a change from the tensor or module `then` to `now`; "" if it is allowed. `{}` stands for its
        name."""
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
    """Returns whether a call of the task could store something in this attribute for the next call."""
    value = attribute.value
    if isinstance(value, np.ndarray):
        return value.size <= _MOST
    if isinstance(value, (Tensor, *COLLECTIONS)) or is_generator(value):
        return True
    return isinstance(value, int | float | np.number) and attribute.siblings <= _MOST


def _change(constant: _Constant) -> str:
    """Describes how a value that must not change has changed, as `Bindings.problem` does; "" if it has not."""
    path, then, now = constant.attribute.path, constant.value, constant.attribute.now
    if isinstance(then, Tensor) and now is then and then.is_leaf and then.requires_grad and then.grad is not None:
        return f"gives {path} a gradient, and nothing trains it: make it a parameter of the model"
    moved = isinstance(then, Tensor) and isinstance(now, Tensor) and now.device != then.device
    # states are compared in tuples, so that the same NaN is equal to itself
    if moved or (_alike(now, then) and (_state(now),) == (constant.state,)):
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
    """Returns whether two values are the same object, or of the same type and no tensors."""
    return now is then or (type(now) is type(then) and not isinstance(then, Tensor))


def _state(value: Any) -> object:
    """Returns a value that differs after a change in place.

    This is the version of a tensor, the content of an array, the length of a container, the state of a random
    generator, or the value itself.
    """
    if isinstance(value, Tensor):
        return 0 if value.is_inference() else value._version
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype, value.tobytes()
    if isinstance(value, COLLECTIONS):
        return len(value)
    return generator_digest(value) if is_generator(value) else value
