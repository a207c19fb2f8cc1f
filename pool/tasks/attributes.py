"""What a task and its model hold besides parameters and buffers: tensors and plain values in attributes, containers,
modules of the task's own, and functions' closures.

In every process these are made anew, by the task's code; nothing of the runtime carries them from one to another.
"""

from __future__ import annotations

import hashlib
import sys
import types
from collections.abc import Iterator, MutableMapping, MutableSequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pool.tasks.task import Task

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.ndarray, torch.dtype, torch.Size)
_MOST = 100_000  # entries of a container that is looked through
_DEEPEST = 50
_HOOKS = ("_hooks", "_hooks_with_kwargs", "_hooks_always_called")  # endings: their keys count all hooks of a process


@dataclass(frozen=True)
class Attribute:
    """One value at its place."""

    path: str
    holder: MutableMapping[Any, Any] | MutableSequence[Any] | types.CellType | tuple[Any, ...]
    key: Any

    @property
    def value(self) -> Any:
        return self.holder.cell_contents if isinstance(self.holder, types.CellType) else self.holder[self.key]

    def put(self, value: object) -> None:
        """In its place. A tuple stays as it is."""
        if isinstance(self.holder, types.CellType):
            self.holder.cell_contents = value
        elif not isinstance(self.holder, tuple):
            self.holder[self.key] = value


def attributes(task: Task, model: nn.Module) -> list[Attribute]:
    """Tensors and plain values, in an order that the code decides; not the model's own parameters and buffers."""
    own = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    seen: dict[int, object] = {}
    found = [*_below(task, "task", seen), *_below(model, "model", seen)]
    return [each for each in found if id(each.value) not in own]


def tensors(found: list[Attribute]) -> list[Attribute]:
    return [each for each in found if isinstance(each.value, Tensor)]


def to_device(found: list[Attribute], device: torch.device) -> None:
    """Moves tensors, one that has several places to one. What is not reached stays, as in plain torch."""
    moved: dict[int, tuple[Tensor, Tensor]] = {}
    for each in tensors(found):
        tensor: Tensor = each.value
        if not tensor.is_meta and tensor.device != device:
            if id(tensor) not in moved:
                moved[id(tensor)] = tensor, _on(tensor, device)
            each.put(moved[id(tensor)][1])


def digests(found: list[Attribute]) -> dict[str, str]:
    """Of tensors that have numbers, by path."""
    return {each.path: _digest(each.value) for each in tensors(found) if not each.value.is_meta}


def values(found: list[Attribute]) -> list[tuple[str, object]]:
    """What two models of one structure can be compared by."""
    return [(each.path, _comparable(each.value)) for each in found]


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
        if isinstance(inner, (*_PLAIN, Tensor)):
            yield each
        else:
            yield from _below(inner, each.path, seen, depth + 1)


def _entries(value: object) -> Iterator[tuple[str, Any, Any]]:
    """Name, holder and key of each."""
    if isinstance(value, type | types.ModuleType):
        return
    if isinstance(value, dict):
        yield from ((f".{key}", value, key) for key in _few(value) if isinstance(key, str))
        yield from ((f"[{place}]", value, key) for place, key in enumerate(_few(value)) if not isinstance(key, str))
    elif isinstance(value, list | tuple):
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
    package = type(value).__module__.partition(".")[0]
    of_python = package in sys.stdlib_module_names and not isinstance(value, types.SimpleNamespace)
    if not isinstance(held, dict) or of_python:  # a logger leads to all others
        return
    inside = ("_parameters", "_buffers", "_modules") if isinstance(value, nn.Module) else ()
    for key in held:
        if key in inside:
            yield from ((f".{name}", held[key], name) for name in held[key])
        elif not (isinstance(value, nn.Module) and key.endswith(_HOOKS)):
            yield f".{key}", held, key
        else:
            yield from ((f".{key}", held[key], hook) for hook in held[key])


def _few(value: Any) -> Any:
    return value if len(value) <= _MOST else ()


def _comparable(value: Any) -> object:
    if isinstance(value, Tensor):
        return tuple(value.shape), str(value.dtype), "" if value.is_meta else _digest(value)
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), value.tobytes() if value.dtype != object else ""
    return value


def _digest(tensor: Tensor) -> str:
    dense = tensor.detach().cpu()
    dense = dense.to_dense() if dense.layout != torch.strided else dense
    dense = torch.view_as_real(dense.resolve_conj()) if dense.is_complex() else dense
    data = dense.contiguous().view(-1).view(torch.uint8).numpy() if dense.numel() else np.empty(0, np.uint8)
    return hashlib.sha256(f"{tuple(tensor.shape)} {tensor.dtype}".encode() + data.tobytes()).hexdigest()[:16]
