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
        return json.dumps(settings, default=_to_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise SparsepoolError(f"{error}: settings are numbers, texts, true or false, lists and tables") from None


def _to_plain(value: Any) -> Any:
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
        _check_importable(task.__name__, f"module {task.__name__}")
        return task.__name__
    is_class = hasattr(task, "__qualname__")
    cls = task if is_class else type(task)
    description = f"{cls.__qualname__} of {cls.__module__}"
    if "<lambda>" in cls.__qualname__:
        raise SparsepoolError("task: a lambda has no name: write a class at the top level of a module of its own")
    if "<locals>" in cls.__qualname__:
        raise SparsepoolError(
            f"task: {description}: is defined inside a function, where no other process finds it: move it to the top "
            "level of its module"
        )
    module, name = (cls.__module__, cls.__qualname__) if is_class else _find_name_of_object(task, cls)
    _check_importable(module, description)
    if _read_attribute_path(sys.modules.get(module), name) is not task:
        raise SparsepoolError(
            f"task: {description}: {module}.{name} is something else by now: give that, or import it again"
        )
    return f"{module}:{name}"


def _read_attribute_path(value: Any, path: str) -> Any:
    """Returns the attribute that a dotted path names, or None if it does not exist."""
    for name in path.split("."):
        value = getattr(value, name, None)
    return value


def _find_name_of_object(task: Any, cls: type) -> tuple[str, str]:
    """Returns the module that holds an object, and the object's name there. Searches the module of its class first,
    then all others. Raises SparsepoolError if no module has it."""
    other_modules = sorted(sys.modules.keys() - {cls.__module__, _MAIN, "__mp_main__"})
    for module_name in [cls.__module__, *other_modules, _MAIN]:
        module = sys.modules.get(module_name)
        if not isinstance(module, ModuleType):
            continue
        for name, value in list(vars(module).items()):
            if value is task:
                return module_name, name
    raise SparsepoolError(
        f"task: an object of {cls.__qualname__}, which has no name in a module: give the class, or write "
        f"`task = {cls.__name__}(...)` at the top level of a module"
    )


def _check_importable(module: str, description: str) -> None:
    """Raises SparsepoolError if a new process could not import the module. `description`: of the task, for the
    message."""
    if module == _MAIN:
        raise SparsepoolError(
            f"task: {description}: is in the script or notebook that is running, which other processes can't import: "
            "move it into a file of its own beside it, and import it from there"
        )
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise SparsepoolError(f"task: {description}: there is no file that module {module} could be imported from")
