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
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pool.task.task import Task

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.ndarray, torch.dtype, torch.Size)
COLLECTIONS = (list, deque, set)  # compared by type and length, as they may grow; a dict may be a cache
_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, torch.Generator)
_SEEDED = (random.gauss.__self__, np.random.mtrand._rand, torch.default_generator)  # type: ignore[attr-defined]
_MOST = 100_000  # larger containers are not searched
_DEEPEST = 50
_OURS = ("training", "_last_backward")  # attributes of modules that the runtime changes
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
        """The current value. Raises LookupError or ValueError if the holder no longer has one under this key."""
        return self.holder.cell_contents if isinstance(self.holder, types.CellType) else self.holder[self.key]

    @property
    def now(self) -> Any:
        """The current value, or None if the holder no longer has one under this key."""
        try:
            return self.value
        except (LookupError, ValueError):
            return None

    @property
    def siblings(self) -> int:
        """The number of values that the holder has, this one included."""
        return 1 if isinstance(self.holder, types.CellType) else len(self.holder)

    def put(self, value: object) -> None:
        """Replaces the value in its holder. Does nothing if the holder is a tuple."""
        if isinstance(self.holder, types.CellType):
            self.holder.cell_contents = value
        elif not isinstance(self.holder, tuple):
            self.holder[self.key] = value


def find_attributes(task: Task | None, model: nn.Module) -> list[Attribute]:
    """Returns the tensors, generators, plain values and collections that a task and its model hold, in an order that
    depends on their code alone. The model's own parameters and buffers are left out. With `task` None only the model is
    searched."""
    own = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    seen: dict[int, object] = {}
    held = [*_below(task, "task", seen), *_below(model, "model", seen)]
    return [each for each in held if id(each.value) not in own]


def select_tensors(held: Sequence[Attribute]) -> list[Attribute]:
    """Returns the attributes whose values are tensors."""
    return [each for each in held if isinstance(each.value, Tensor)]


def move_to_device(held: Sequence[Attribute], device: torch.device) -> None:
    """Moves the tensors among `held` to a device. A tensor that is held several times is moved once and stays shared. A
    tensor that the search did not find stays where it is, as in plain torch."""
    moved: dict[int, tuple[Tensor, Tensor]] = {}
    for each in select_tensors(held):
        tensor: Tensor = each.value
        if not tensor.is_meta and tensor.device != device:
            if id(tensor) not in moved:
                moved[id(tensor)] = tensor, _on(tensor, device)
            each.put(moved[id(tensor)][1])


def compute_digests(held: Sequence[Attribute]) -> dict[str, str]:
    """Returns a digest for each tensor and each generator among `held`, by path. Tensors on the meta device are left
    out."""
    numbers = {each.path: _digest(each.value) for each in select_tensors(held) if not each.value.is_meta}
    return numbers | {each.path: generator_digest(each.value) for each in held if is_generator(each.value)}


def is_generator(value: object) -> bool:
    """Returns whether a value is a random generator of Python, numpy or torch. The global generators do not count, as
    the runtime seeds them."""
    return isinstance(value, _GENERATORS) and all(value is not each for each in _SEEDED)


def generator_digest(generator: Any) -> str:
    """Returns a digest of a generator's state, which decides what it draws next."""
    if isinstance(generator, torch.Generator):
        return _digest(generator.get_state())
    if isinstance(generator, random.Random):
        state: object = None if isinstance(generator, random.SystemRandom) else generator.getstate()
    elif isinstance(generator, np.random.Generator):
        state = _plain(generator.bit_generator.state)
    else:
        state = _plain(generator.get_state(legacy=False))
    return hashlib.sha256(repr(state).encode()).hexdigest()[:16]


def _plain(state: Any) -> object:
    """Converts the arrays in a numpy generator's state to lists, as the text of a long array leaves numbers out."""
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state


def comparable_values(held: Sequence[Attribute]) -> list[tuple[str, object]]:
    """Returns the path and a comparable form of each value, by which two tasks and models of one structure can be
    compared."""
    return [(each.path, _comparable(each.value)) for each in held]


def _on(tensor: Tensor, device: torch.device) -> Tensor:
    """Copies a tensor to a device. A parameter stays a parameter."""
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(tensor.detach().to(device), requires_grad=tensor.requires_grad)
    return tensor.to(device)


def _below(value: object, path: str, seen: dict[int, object], depth: int = 0) -> Iterator[Attribute]:
    """Yields the attributes of `value` and, recursively, of what it holds. Each object is visited once, down to a fixed
    depth."""
    if id(value) in seen or depth > _DEEPEST:
        return
    seen[id(value)] = value
    for name, holder, key in _entries(value):
        each = Attribute(f"{path}{name}", holder, key)
        try:
            inner = each.value
        except ValueError:  # a closure variable that has no value yet
            continue
        if isinstance(inner, (*_PLAIN, Tensor)) or is_generator(inner):
            yield each
        else:
            if isinstance(inner, COLLECTIONS):
                yield each
            yield from _below(inner, each.path, seen, depth + 1)


def _entries(value: object) -> Iterator[tuple[str, Any, Any]]:
    """Yields the name, holder and key of each value that `value` holds directly. Classes and modules are not
    searched."""
    if isinstance(value, type | types.ModuleType):
        return
    if isinstance(value, dict):
        yield from ((f".{key}", value, key) for key in _few(value) if isinstance(key, str))
        yield from ((f"[{place}]", value, key) for place, key in enumerate(_few(value)) if not isinstance(key, str))
    elif isinstance(value, list | tuple | deque):
        yield from ((f"[{place}]", value, place) for place in range(len(_few(value))))
    elif isinstance(value, types.FunctionType):
        names = value.__code__.co_freevars
        yield from ((f".{name}", cell, None) for name, cell in zip(names, value.__closure__ or (), strict=True))
        yield from (("", defaults, key) for defaults in (value.__kwdefaults__ or {},) for key in defaults)
        yield from (("", value.__defaults__, key) for key in range(len(value.__defaults__ or ())))
    elif isinstance(value, types.MethodType):
        held = (value.__self__, value.__func__)
        yield from (("", held, key) for key in range(2))
    elif isinstance(value, partial):
        yield from ((f"({key})", value.args, key) for key in range(len(value.args)))
        yield from ((f"({key})", value.keywords, key) for key in value.keywords)
    else:
        yield from _of_object(value)


def _of_object(value: object) -> Iterator[tuple[str, Any, Any]]:
    """Yields the name, holder and key of each attribute of an object. Objects of the standard library and of torch's
    private modules are skipped: a logger leads to all others, a compiler to its caches."""
    held = getattr(value, "__dict__", None)
    package, _, inside = type(value).__module__.partition(".")
    of_python = package in sys.stdlib_module_names and not isinstance(value, types.SimpleNamespace)
    of_torch = package == "torch" and inside.startswith("_")
    if not isinstance(held, dict) or of_python or of_torch:  # a logger leads to all others
        return
    if isinstance(value, nn.Module):
        yield from _of_module(held)
    else:
        yield from ((f".{key}", held, key) for key in held)


def _of_module(held: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yields the name, holder and key of each attribute of a torch module, given its `__dict__`. Leaves out what the
    runtime itself changes, and weights that torch.nn.utils computes anew in each forward pass."""
    parameters = held["_parameters"]
    for key in held:
        if key in ("_parameters", "_buffers", "_modules"):
            yield from ((f".{name}", held[key], name) for name in held[key])
        elif key.endswith(_HOOKS):
            yield from ((f".{key}", held[key], hook) for hook in held[key])
        elif not (key in _OURS or f"{key}_g" in parameters or f"{key}_orig" in parameters):  # torch.nn.utils
            yield f".{key}", held, key  # computes these from parameters in each forward


def _few(value: Any) -> Any:
    """Returns the container, or an empty one if it has too many entries to be searched."""
    return value if len(value) <= _MOST else ()


def _comparable(value: Any) -> object:
    """Returns a value that is equal for equal tensors, arrays, generators and plain values. Of a list, deque or set
    only type and length count."""
    if isinstance(value, Tensor):
        return tuple(value.shape), str(value.dtype), "" if value.is_meta else _digest(value)
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), value.tobytes() if value.dtype != object else ""
    if isinstance(value, COLLECTIONS):
        return type(value), len(value)
    return generator_digest(value) if is_generator(value) else value


def _digest(tensor: Tensor) -> str:
    """Returns a digest of a tensor's shape, dtype and numbers."""
    dense = tensor.detach().cpu()
    dense = dense.to_dense() if dense.layout != torch.strided else dense
    dense = torch.view_as_real(dense.resolve_conj()) if dense.is_complex() else dense
    data = dense.contiguous().view(-1).view(torch.uint8).numpy() if dense.numel() else np.empty(0, np.uint8)
    return hashlib.sha256(f"{tuple(tensor.shape)} {tensor.dtype}".encode() + data.tobytes()).hexdigest()[:16]
