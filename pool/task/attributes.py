"""Looks through a task and its model for what they hold besides parameters and buffers: tensors and plain values in
attributes, containers, modules of the task's own, and functions' closures.

In every process these are made anew, by the task's code; nothing of the runtime carries them from one to another.
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
COLLECTIONS = (list, deque, set)  # that grow; a dict may be a cache
_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, torch.Generator)
_SEEDED = (random.gauss.__self__, np.random.mtrand._rand, torch.default_generator)  # type: ignore[attr-defined]
_MOST = 100_000  # entries of a container that is looked through
_DEEPEST = 50
_OURS = ("training", "_last_backward")  # attributes of modules that the runtime itself changes
_HOOKS = ("_hooks", "_hooks_with_kwargs", "_hooks_always_called")  # endings: their keys count all hooks of a process


@dataclass(frozen=True)
class Attribute:
    """One value at its place."""

    path: str
    holder: MutableMapping[Any, Any] | MutableSequence[Any] | types.CellType | tuple[Any, ...]
    key: Any

    @property
    def value(self) -> Any:
        """Raises LookupError or ValueError if nothing is there any more."""
        return self.holder.cell_contents if isinstance(self.holder, types.CellType) else self.holder[self.key]

    @property
    def now(self) -> Any:
        """The value; None if nothing is there any more."""
        try:
            return self.value
        except (LookupError, ValueError):
            return None

    @property
    def siblings(self) -> int:
        """Number of values that its holder has, with this one."""
        return 1 if isinstance(self.holder, types.CellType) else len(self.holder)

    def put(self, value: object) -> None:
        """Puts another value in its place. A tuple stays as it is."""
        if isinstance(self.holder, types.CellType):
            self.holder.cell_contents = value
        elif not isinstance(self.holder, tuple):
            self.holder[self.key] = value


def attributes(task: Task | None, model: nn.Module) -> list[Attribute]:
    """Tensors and plain values, in an order that the code decides; not the model's own parameters and buffers. `task`:
    None for the model's alone."""
    own = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    seen: dict[int, object] = {}
    held = [*_below(task, "task", seen), *_below(model, "model", seen)]
    return [each for each in held if id(each.value) not in own]


def tensors(held: Sequence[Attribute]) -> list[Attribute]:
    return [each for each in held if isinstance(each.value, Tensor)]


def to_device(held: Sequence[Attribute], device: torch.device) -> None:
    """Moves tensors, one that has several places to one. What is not reached stays, as in plain torch."""
    moved: dict[int, tuple[Tensor, Tensor]] = {}
    for each in tensors(held):
        tensor: Tensor = each.value
        if not tensor.is_meta and tensor.device != device:
            if id(tensor) not in moved:
                moved[id(tensor)] = tensor, _on(tensor, device)
            each.put(moved[id(tensor)][1])


def digests(held: Sequence[Attribute]) -> dict[str, str]:
    """Digests of the tensors that have numbers and of generators, by path."""
    numbers = {each.path: _digest(each.value) for each in tensors(held) if not each.value.is_meta}
    return numbers | {each.path: state_of(each.value) for each in held if is_generator(each.value)}


def is_generator(value: object) -> bool:
    """Returns whether it draws numbers, and is none of the global ones, which the runtime seeds."""
    return isinstance(value, _GENERATORS) and all(value is not each for each in _SEEDED)


def state_of(generator: Any) -> str:
    """Returns a digest of what a generator draws next."""
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
    """A numpy generator's state without arrays, whose text leaves numbers out."""
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state


def values(held: Sequence[Attribute]) -> list[tuple[str, object]]:
    """Values by which two tasks and models of one structure can be compared."""
    return [(each.path, _comparable(each.value)) for each in held]


def _on(tensor: Tensor, device: torch.device) -> Tensor:
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(tensor.detach().to(device), requires_grad=tensor.requires_grad)
    return tensor.to(device)


def _below(value: object, path: str, seen: dict[int, object], depth: int = 0) -> Iterator[Attribute]:
    if id(value) in seen or depth > _DEEPEST:
        return
    seen[id(value)] = value
    for name, holder, key in _entries(value):
        each = Attribute(f"{path}{name}", holder, key)
        try:
            inner = each.value
        except ValueError:  # a closure's variable without a value
            continue
        if isinstance(inner, (*_PLAIN, Tensor)) or is_generator(inner):
            yield each
        else:
            if isinstance(inner, COLLECTIONS):
                yield each
            yield from _below(inner, each.path, seen, depth + 1)


def _entries(value: object) -> Iterator[tuple[str, Any, Any]]:
    """Yields name, holder and key of each."""
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
    held = getattr(value, "__dict__", None)
    package, _, inside = type(value).__module__.partition(".")
    of_python = package in sys.stdlib_module_names and not isinstance(value, types.SimpleNamespace)
    of_torch = package == "torch" and inside.startswith("_")
    if not isinstance(held, dict) or of_python or of_torch:  # a logger leads to all others, a compiler to its books
        return
    if isinstance(value, nn.Module):
        yield from _of_module(held)
    else:
        yield from ((f".{key}", held, key) for key in held)


def _of_module(held: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    parameters = held["_parameters"]
    for key in held:
        if key in ("_parameters", "_buffers", "_modules"):
            yield from ((f".{name}", held[key], name) for name in held[key])
        elif key.endswith(_HOOKS):
            yield from ((f".{key}", held[key], hook) for hook in held[key])
        elif not (key in _OURS or f"{key}_g" in parameters or f"{key}_orig" in parameters):  # torch.nn.utils': each
            yield f".{key}", held, key  # forward computes them from parameters


def _few(value: Any) -> Any:
    return value if len(value) <= _MOST else ()


def _comparable(value: Any) -> object:
    if isinstance(value, Tensor):
        return tuple(value.shape), str(value.dtype), "" if value.is_meta else _digest(value)
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), value.tobytes() if value.dtype != object else ""
    if isinstance(value, COLLECTIONS):
        return type(value), len(value)
    return state_of(value) if is_generator(value) else value


def _digest(tensor: Tensor) -> str:
    dense = tensor.detach().cpu()
    dense = dense.to_dense() if dense.layout != torch.strided else dense
    dense = torch.view_as_real(dense.resolve_conj()) if dense.is_complex() else dense
    data = dense.contiguous().view(-1).view(torch.uint8).numpy() if dense.numel() else np.empty(0, np.uint8)
    return hashlib.sha256(f"{tuple(tensor.shape)} {tensor.dtype}".encode() + data.tobytes()).hexdigest()[:16]
