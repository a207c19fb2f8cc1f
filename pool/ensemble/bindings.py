"""Detects and repairs changes that a task's code makes to the tensors and attributes of its model.

The runtime knows a model's tensors from when it was built. It loads weights into them, and passes the buffers' values
on to later batches. If the task's code replaces such a tensor by another one, the old tensor is put back with the new
values. Changes that the runtime can't pass on are reported as errors. They would stay in the process in which the task
was called, and later results would depend on which process computes them (invariant I2).
"""

from __future__ import annotations

import itertools
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
_MAX_NUMBERS = 1000  # numbers in one container; larger ones are no state, and slow to compare


@dataclass(frozen=True)
class _Table:
    """Holds the parameters, buffers or submodules of one module: the current ones, and those when it was built."""

    prefix: str  # of the names of its entries
    kind: str
    current: dict[str, Any]
    original: Mapping[str, Any]

    def describe(self, name: str) -> str:
        """Returns kind and full name of an entry for messages, e.g. "the parameter mid.weight"."""
        return f"the {self.kind} {self.prefix}{name}"


@dataclass(frozen=True)
class _Constant:
    """Holds a value of a model or a task that is not part of the weights and must not change."""

    attribute: Attribute
    value: object
    state: object  # differs after a change in place; see `_state_of_value`


class Bindings:
    """Remembers the tensors and attributes of a model and its task, and compares them after each call of the task."""

    def __init__(self, model: nn.Module, constants: Sequence[Attribute] = (), *, weights_change: bool = False) -> None:
        """Remembers the current state of a model.

        `constants`: values besides the weights that must not change. `weights_change`: the code that is called may
        change trained parameters.
        """
        self._tables: list[_Table] = []
        for path, module in model.named_modules():
            prefix = f"{path}." if path else ""
            for name, kind in _KINDS.items():
                entries = vars(module)[name]
                self._tables.append(_Table(prefix, kind, entries, dict(entries)))
        self._weights_change = weights_change
        self._trained = [parameter for _, parameter in trained_parameters(model)]
        self._carried = [tensor for _, tensor in untrained_tensors(model)]
        self._needs_gradient = {id(parameter): parameter.requires_grad for parameter in model.parameters()}
        entries = itertools.chain.from_iterable(table.original.values() for table in self._tables)
        self._num_names = Counter(id(entry) for entry in entries if entry is not None)
        self._hooks = {id(parameter): count_hooks(parameter) for parameter in self._trained}
        self._shapes = {id(tensor): (tensor.shape, tensor.dtype) for tensor in (*self._trained, *self._carried)}
        self._constants = [
            _Constant(constant, constant.value, _state_of_value(constant.value))
            for constant in constants
            if _may_store_state(constant)
        ]

    def restore_tensors(self, buffers: Sequence[Tensor], weights: Sequence[Tensor] = ()) -> str:
        """Puts back tensors that the task's code, or its backward, has replaced, with their new values.

        `buffers`: the memory of the tensors that are not trained. `weights`: the memory of the trained parameters,
        if these may change. Returns a description of what can't be passed on, as `find_problem` does, or "".
        """
        problem = self.find_problem()
        if problem:
            return problem
        with torch.no_grad():
            for table in self._tables:
                self._restore_entries(table)
            for tensor, memory in zip(self._carried, buffers, strict=True):
                _restore_memory(tensor, memory)
            for parameter, memory in zip(self._trained, weights, strict=False):
                _restore_memory(parameter, memory)
            for parameter in self._trained:
                parameter.requires_grad_()
        return ""

    @staticmethod
    def _restore_entries(table: _Table) -> None:
        """Puts the original tensors back into a module, with the values of those that have replaced them."""
        for name, original in table.original.items():
            current = table.current[name]
            if current is not original:
                original.copy_(current)
                table.current[name] = original

    def find_problem(self) -> str:
        """Describes the first change that can't be passed on, e.g. "lets the parameter mid.weight be trained, ...";
        "" if none."""
        for table in self._tables:
            if table.current.keys() != table.original.keys():
                name = min(table.current.keys() ^ table.original.keys())
                verb = "adds" if name in table.current else "removes"
                return f"{verb} {table.describe(name)}: build_model must make all that the model has"
            for name, original in table.original.items():
                current = table.current[name]
                if current is original and id(original) not in self._shapes:  # a module, or an entry that is None
                    continue
                problem = self._find_difference(current, original)
                if problem:
                    return problem.format(table.describe(name))
        for constant in self._constants:
            problem = _find_change(constant)
            if problem:
                return problem
        return ""

    def _find_difference(self, current: Any, original: Any) -> str:
        """Describes a change of a tensor or module that is not allowed; "" if there is none. `{}` stands for its
        name."""
        shape, dtype = self._shapes.get(id(original), ((), None))
        if not isinstance(current, Tensor) or dtype is None:
            return "puts something else in the place of {}: build_model must make what the model has"
        if current.shape != shape or current.dtype != dtype:
            before, after = _format_tensor(dtype, shape), _format_tensor(current.dtype, current.shape)
            return f"changes {{}} from {before} to {after}: its shape and dtype are those that build_model gives it"
        was_trained = self._needs_gradient.get(id(original))  # None: a buffer
        if was_trained is not None and current.requires_grad and not was_trained:
            return "lets {} be trained, which build_model has frozen: let build_model train it, and freeze it in loss"
        if was_trained and not current.requires_grad and self._weights_change:
            return "freezes {}, which no worker gets to know: freeze it in build_model"
        if current is original:
            if was_trained and count_hooks(current) != self._hooks[id(original)]:
                return "changes the hooks of {}: set them in build_model, once"
            return ""
        if was_trained and not self._weights_change:
            return "binds {} anew: only after_step may change weights"
        if self._num_names[id(original)] > 1:
            return "binds {} anew, which has another name, too: change it in place"
        return ""


def _restore_memory(tensor: Tensor, memory: Tensor) -> None:
    """Moves a tensor's values back to its memory, and detaches the tensor from results that it was computed from."""
    if tensor.data_ptr() != memory.data_ptr():  # the task has set its .data
        new = tensor.detach()
        tensor.data = memory
        tensor.copy_(new)
    if tensor.grad_fn is not None:  # changed in place by a result with a gradient
        tensor.detach_()


def _format_tensor(dtype: torch.dtype, shape: Sequence[int]) -> str:
    """Returns dtype and shape for messages, such as `float32 16 x 8`."""
    size = " x ".join(map(str, shape)) or "scalar"
    return f"{str(dtype).removeprefix('torch.')} {size}"


def _may_store_state(attribute: Attribute) -> bool:
    """Tells whether a call of the task could store something in this attribute for the next call."""
    value = attribute.value
    if isinstance(value, np.ndarray):
        return value.size <= _MAX_NUMBERS
    if isinstance(value, (Tensor, *COLLECTIONS)) or is_generator(value):
        return True
    return isinstance(value, int | float | np.number) and attribute.num_siblings <= _MAX_NUMBERS


def _find_change(constant: _Constant) -> str:
    """Describes how a value that must not change has changed, as `Bindings.find_problem` does; "" if it has not."""
    path, original, current = constant.attribute.path, constant.value, constant.attribute.current_value
    if isinstance(original, Tensor) and current is original and _has_gradient(original):
        return f"gives {path} a gradient, and nothing trains it: make it a parameter of the model"
    if not _has_changed(constant, current):
        return ""
    if isinstance(original, Tensor):
        return (
            f"changes {path}, a tensor that no other process gets to know: register it as a buffer of the model "
            "(register_buffer)"
        )
    if is_generator(original):
        return (
            f"draws from {path}, of which no other process gets to know: draw from torch's, numpy's or Python's global "
            "generator, which are seeded for each batch"
        )
    kind = "number"
    if isinstance(original, COLLECTIONS):
        kind = f"length of the {type(original).__name__}"
    elif isinstance(original, np.ndarray):
        kind = "array"
    return f"changes the {kind} {path}, which no other process gets to know: use progress, or a buffer of the model"


def _has_gradient(tensor: Tensor) -> bool:
    return tensor.is_leaf and tensor.requires_grad and tensor.grad is not None


def _has_changed(constant: _Constant, current: object) -> bool:
    """Tells whether a value was changed in place or replaced. A tensor may be moved to another device, a value be
    replaced by an equal one of its type."""
    original = constant.value
    if isinstance(original, Tensor):
        if isinstance(current, Tensor) and current.device != original.device:
            return False
        is_comparable = current is original
    else:
        is_comparable = type(current) is type(original)
    # states are compared in tuples, so that the same NaN is equal to itself
    return not is_comparable or (_state_of_value(current),) != (constant.state,)


def _state_of_value(value: Any) -> object:
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
