"""Finds what a task and its model hold besides the model's parameters and buffers: tensors, generators and plain values
in attributes, containers, modules of the task's own, and closures of functions.

Each process makes its own task and model by the task's code, and the runtime copies nothing but parameters and buffers
between processes. What is found here is moved to the device. It is also compared, to detect a process or a member whose
task is not alike.
"""

from __future__ import annotations

import hashlib
import random
import sys
import types
from collections import deque
from collections.abc import Iterator, MutableMapping, MutableSequence, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pool.task.task import Task

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.ndarray, torch.dtype, torch.Size)
COLLECTIONS = (list, deque, set)  # compared by type and length, as they may grow; a dict may be a cache
_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, torch.Generator)
_GLOBAL_GENERATORS = (random.gauss.__self__, np.random.mtrand._rand, torch.default_generator)  # type: ignore[attr-defined]
_MAX_SIZE = 100_000  # larger containers are not searched
_MAX_DEPTH = 50
_CHANGED_BY_RUNTIME = ("training", "_last_backward")  # attributes of modules that the runtime changes
_HOOKS = ("_hooks", "_hooks_with_kwargs", "_hooks_always_called")  # suffixes of dicts; their keys count all hooks


@dataclass(frozen=True)
class Attribute:
    """A value that a task or model holds, and where: `path` for messages, `holder` and `key` to read and replace the
    value."""

    path: str
    holder: MutableMapping[Any, Any] | MutableSequence[Any] | types.CellType | tuple[Any, ...]
    key: Any

    @property
    def value(self) -> Any:
        """The value. Raises LookupError or ValueError if the holder no longer has one under this key."""
        if isinstance(self.holder, types.CellType):
            return self.holder.cell_contents
        return self.holder[self.key]

    @property
    def current_value(self) -> Any:
        """The value, or None if the holder no longer has one under this key."""
        try:
            return self.value
        except (LookupError, ValueError):
            return None

    @property
    def num_siblings(self) -> int:
        """The number of values that the holder has, this one included."""
        return 1 if isinstance(self.holder, types.CellType) else len(self.holder)

    def replace_value(self, value: object) -> None:
        """Replaces the value in its holder. Does nothing if the holder is a tuple."""
        if isinstance(self.holder, types.CellType):
            self.holder.cell_contents = value
        elif not isinstance(self.holder, tuple):
            self.holder[self.key] = value


def find_attributes(task: Task | None, model: nn.Module) -> list[Attribute]:
    """Returns the tensors, generators, plain values and collections that a task and its model hold, in an order that
    depends on their code alone. The model's own parameters and buffers are left out. With `task` None only the model is
    searched."""
    model_tensors = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    visited: dict[int, object] = {}
    found = [*_search(task, "task", visited), *_search(model, "model", visited)]
    return [attribute for attribute in found if id(attribute.value) not in model_tensors]


def select_tensors(attributes: Sequence[Attribute]) -> list[Attribute]:
    """Returns the attributes whose values are tensors."""
    return [attribute for attribute in attributes if isinstance(attribute.value, Tensor)]


def move_to_device(attributes: Sequence[Attribute], device: torch.device) -> None:
    """Moves the tensors among the attributes to a device. A tensor in several attributes is moved once and stays
    shared. A tensor that the search did not find stays where it is, as in plain torch."""
    moved: dict[int, Tensor] = {}  # by the id of the tensor on its old device
    originals = []  # kept alive, so that no new tensor gets the id of one of them
    for attribute in select_tensors(attributes):
        tensor: Tensor = attribute.value
        if tensor.is_meta or tensor.device == device:
            continue
        if id(tensor) not in moved:
            originals.append(tensor)
            moved[id(tensor)] = _copy_to_device(tensor, device)
        attribute.replace_value(moved[id(tensor)])


def compute_digests(attributes: Sequence[Attribute]) -> dict[str, str]:
    """Returns a digest for each tensor and each generator among the attributes, by path. Tensors on the meta device are
    left out."""
    digests = {}
    for attribute in select_tensors(attributes):
        if not attribute.value.is_meta:
            digests[attribute.path] = _tensor_digest(attribute.value)
    for attribute in attributes:
        if is_generator(attribute.value):
            digests[attribute.path] = generator_digest(attribute.value)
    return digests


def is_generator(value: object) -> bool:
    """Returns whether a value is a random generator of Python, numpy or torch. The global generators do not count, as
    the runtime seeds them."""
    return isinstance(value, _GENERATORS) and all(value is not generator for generator in _GLOBAL_GENERATORS)


def generator_digest(generator: Any) -> str:
    """Returns a digest of a generator's state, which decides what it draws next."""
    if isinstance(generator, torch.Generator):
        return _tensor_digest(generator.get_state())
    if isinstance(generator, random.Random):
        state: object = None if isinstance(generator, random.SystemRandom) else generator.getstate()
    elif isinstance(generator, np.random.Generator):
        state = _arrays_to_lists(generator.bit_generator.state)
    else:
        state = _arrays_to_lists(generator.get_state(legacy=False))
    return hashlib.sha256(repr(state).encode()).hexdigest()[:16]


def _arrays_to_lists(state: Any) -> object:
    """Converts the arrays in a numpy generator's state to lists, as the text of a long array leaves numbers out."""
    if isinstance(state, dict):
        return {key: _arrays_to_lists(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state


def comparable_values(attributes: Sequence[Attribute]) -> list[tuple[str, object]]:
    """Returns the path and a comparable form of each value, by which two tasks and models of one structure can be
    compared."""
    return [(attribute.path, _comparable(attribute.value)) for attribute in attributes]


def _copy_to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copies a tensor to a device. A parameter stays a parameter."""
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(tensor.detach().to(device), requires_grad=tensor.requires_grad)
    return tensor.to(device)


class _Entry(NamedTuple):
    """A value that another value holds: `name` is its part of the path, `holder` and `key` are as in Attribute."""

    name: str
    holder: Any
    key: Any


def _search(value: object, path: str, visited: dict[int, object], depth: int = 0) -> Iterator[Attribute]:
    """Yields the attributes of `value` and, recursively, of the values that it holds. Each object is visited once, down
    to a fixed depth."""
    if id(value) in visited or depth > _MAX_DEPTH:
        return
    visited[id(value)] = value
    for name, holder, key in _entries(value):
        attribute = Attribute(f"{path}{name}", holder, key)
        try:
            inner = attribute.value
        except ValueError:  # a closure variable that has no value yet
            continue
        if isinstance(inner, (*_PLAIN, Tensor)) or is_generator(inner):
            yield attribute
            continue
        if isinstance(inner, COLLECTIONS):
            yield attribute
        yield from _search(inner, attribute.path, visited, depth + 1)


def _entries(value: object) -> Iterator[_Entry]:
    """Yields the values that `value` holds directly. Classes and modules are not searched."""
    if isinstance(value, type | types.ModuleType):
        return
    if isinstance(value, dict):
        yield from _dict_entries(value)
    elif isinstance(value, list | tuple | deque):
        yield from (_Entry(f"[{index}]", value, index) for index in range(len(_limit_size(value))))
    elif isinstance(value, types.FunctionType):
        yield from _function_entries(value)
    elif isinstance(value, types.MethodType):
        parts = (value.__self__, value.__func__)
        yield from (_Entry("", parts, index) for index in range(2))
    elif isinstance(value, partial):
        yield from (_Entry(f"({index})", value.args, index) for index in range(len(value.args)))
        yield from (_Entry(f"({name})", value.keywords, name) for name in value.keywords)
    else:
        yield from _object_entries(value)


def _dict_entries(value: dict[Any, Any]) -> Iterator[_Entry]:
    """Yields the values of a dict: by key if the key is a text, then by position."""
    keys = list(_limit_size(value))
    yield from (_Entry(f".{key}", value, key) for key in keys if isinstance(key, str))
    yield from (_Entry(f"[{index}]", value, key) for index, key in enumerate(keys) if not isinstance(key, str))


def _function_entries(function: types.FunctionType) -> Iterator[_Entry]:
    """Yields the closure variables of a function and the default values of its arguments."""
    names = function.__code__.co_freevars
    yield from (_Entry(f".{name}", cell, None) for name, cell in zip(names, function.__closure__ or (), strict=True))
    keyword_defaults = function.__kwdefaults__ or {}
    yield from (_Entry("", keyword_defaults, name) for name in keyword_defaults)
    defaults = function.__defaults__ or ()
    yield from (_Entry("", defaults, index) for index in range(len(defaults)))


def _object_entries(value: object) -> Iterator[_Entry]:
    """Yields the attributes of an object. Objects of the standard library and of torch's private modules are skipped: a
    logger leads to all others, a compiler to its caches."""
    members = getattr(value, "__dict__", None)
    package, _, module = type(value).__module__.partition(".")
    is_of_python = package in sys.stdlib_module_names and not isinstance(value, types.SimpleNamespace)
    is_of_torch = package == "torch" and module.startswith("_")
    if not isinstance(members, dict) or is_of_python or is_of_torch:
        return
    if isinstance(value, nn.Module):
        yield from _module_entries(members)
    else:
        yield from (_Entry(f".{key}", members, key) for key in members)


def _module_entries(members: dict[str, Any]) -> Iterator[_Entry]:
    """Yields the attributes of a torch module, given its `__dict__`. Leaves out what the runtime itself changes, and
    weights that torch.nn.utils computes anew in each forward pass."""
    parameters = members["_parameters"]
    for key in members:
        is_computed = f"{key}_g" in parameters or f"{key}_orig" in parameters  # from these, by torch.nn.utils
        if key in ("_parameters", "_buffers", "_modules"):
            yield from (_Entry(f".{name}", members[key], name) for name in members[key])
        elif key.endswith(_HOOKS):
            yield from (_Entry(f".{key}", members[key], hook) for hook in members[key])
        elif key not in _CHANGED_BY_RUNTIME and not is_computed:
            yield _Entry(f".{key}", members, key)


def _limit_size(value: Any) -> Any:
    """Returns the container, or an empty one if it has too many entries to be searched."""
    return value if len(value) <= _MAX_SIZE else ()


def _comparable(value: Any) -> object:
    """Returns a value that is equal for equal tensors, arrays, generators and plain values. Of a list, deque or set
    only type and length count."""
    if isinstance(value, Tensor):
        return tuple(value.shape), str(value.dtype), "" if value.is_meta else _tensor_digest(value)
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), value.tobytes() if value.dtype != object else ""
    if isinstance(value, COLLECTIONS):
        return type(value), len(value)
    return generator_digest(value) if is_generator(value) else value


def _tensor_digest(tensor: Tensor) -> str:
    """Returns a digest of a tensor's shape, dtype and numbers."""
    dense = tensor.detach().cpu()
    if dense.layout != torch.strided:
        dense = dense.to_dense()
    if dense.is_complex():
        dense = torch.view_as_real(dense.resolve_conj())
    data = dense.contiguous().view(-1).view(torch.uint8).numpy().tobytes() if dense.numel() else b""
    return hashlib.sha256(f"{tuple(tensor.shape)} {tensor.dtype}".encode() + data).hexdigest()[:16]
