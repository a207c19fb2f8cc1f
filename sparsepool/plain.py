"""Converts settings and tasks given in Python to plain data that a config can hold and other processes understand."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from sparsepool.errors import SparsepoolError

_MAIN = "__main__"


def encode_json(settings: Mapping[str, Any]) -> bytes:
    """Returns settings as JSON text. Raises SparsepoolError for a value that is no number, text, list or table, and
    can't become one."""
    try:
        return json.dumps(settings, default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise SparsepoolError(f"{error}: settings are numbers, texts, true or false, lists and tables") from None


def _plain(value: Any) -> Any:
    """Converts a value for json.dumps: paths to text, mappings to dicts, numbers and arrays of numpy to Python's.
    Raises TypeError for any other type."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{value!r} is of type {type(value).__name__}")


def task_name(task: Any) -> str:
    """Returns "module" or "module:Name", by which other processes import a task that is a module, a class or an object.
    Raises SparsepoolError, which says what to do, if they can't."""
    if isinstance(task, str):
        return task
    if isinstance(task, ModuleType):
        return _importable(task.__name__, f"module {task.__name__}")
    kind = task if hasattr(task, "__qualname__") else type(task)
    what = f"{kind.__qualname__} of {kind.__module__}"
    if "<lambda>" in kind.__qualname__:
        raise SparsepoolError("task: a lambda has no name: write a class at the top level of a module of its own")
    if "<locals>" in kind.__qualname__:
        raise SparsepoolError(
            f"task: {what}: is defined inside a function, where no other process finds it: move it to the top level of "
            "its module"
        )
    if kind is task:
        module, name = kind.__module__, kind.__qualname__
    else:
        module, name = _place_of(task, kind)
    _importable(module, what)
    there: Any = sys.modules.get(module)
    for part in name.split("."):
        there = getattr(there, part, None)
    if there is not task:
        raise SparsepoolError(f"task: {what}: {module}.{name} is something else by now: give that, or import it again")
    return f"{module}:{name}"


def _place_of(task: Any, kind: type) -> tuple[str, str]:
    """Returns the module that holds an object, and the object's name there. Looks in the module of its class first,
    then in all others. Raises SparsepoolError if no module has it."""
    names = [kind.__module__, *sorted(sys.modules.keys() - {kind.__module__, _MAIN, "__mp_main__"}), _MAIN]
    for module in names:
        if isinstance(found := sys.modules.get(module), ModuleType):
            for name, value in list(vars(found).items()):
                if value is task:
                    return module, name
    raise SparsepoolError(
        f"task: an object of {kind.__qualname__}, which has no name in a module: give the class, or write "
        f"`task = {kind.__name__}(...)` at the top level of a module"
    )


def _importable(module: str, what: str) -> str:
    """Returns the module's name. Raises SparsepoolError if a new process could not import it."""
    if module == _MAIN:
        raise SparsepoolError(
            f"task: {what}: is in the script or notebook that is running, which other processes can't import: move it "
            "into a file of its own beside it, and import it from there"
        )
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise SparsepoolError(f"task: {what}: there is no file that module {module} could be imported from")
    return module
