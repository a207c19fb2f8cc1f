"""Finds a task by name. Free of torch: a task's module names its config at once and its model lazily."""

from __future__ import annotations

import importlib
import inspect
import reprlib
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

from pydantic import ValidationError

from loader.config import Section
from loader.users_code import look_in_current_folder
from pool.errors import ConfigError
from pool.failure import definition_of, told

if TYPE_CHECKING:
    from pool.tasks.task import Task

BUILT_IN = {"nnue": "pool.tasks.nnue"}


class TaskModule(Protocol):
    """What a task's module must offer. Importing it must not import torch; calling `create_task` may."""

    ModelConfig: type[Section]
    LossConfig: type[Section]

    def create_task(self, model: Any, loss: Any) -> Task: ...


def task_module(name: str) -> TaskModule:
    """The module of a built-in task, or the module of that dotted name. Raises ConfigError."""
    path = BUILT_IN.get(name, name)
    unknown = f"task: no task {name!r}; allowed: {', '.join(sorted(BUILT_IN))}, or the name of a module"
    if not all(part.isidentifier() for part in path.split(".")):
        raise ConfigError(unknown)
    if path == name:
        look_in_current_folder(name)
    try:
        module = importlib.import_module(path)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and (path == missing or path.startswith(f"{missing}.")):
            raise ConfigError(unknown) from None
        raise ConfigError(f"task: module {name!r} can't be imported: {told(error)}") from error
    if problem := _problem(module):
        raise ConfigError(f"task: module {name!r} ({getattr(module, '__file__', None)}): {problem}")
    return cast(TaskModule, module)


def call_problem(function: object, wanted: Sequence[str]) -> str:
    """Why `function` can't be called with these arguments, in order, for a result; empty if it can."""
    call = f"({', '.join(wanted)})"
    if not callable(function):
        return f"must be a function of {call}, not {reprlib.repr(function)}"
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "must not be async: nobody awaits it"
    if inspect.isgeneratorfunction(function):
        return "must not be a generator (it has a yield): its body would never run"
    try:
        inspect.signature(function).bind(*wanted)
    except TypeError as error:
        return f"can't be called with {call}: {error} ({definition_of(function)})"
    except ValueError:
        return ""  # nobody knows its arguments
    return ""


def _problem(module: ModuleType) -> str:
    """Why it is no TaskModule; empty if it is."""
    for name in ("ModelConfig", "LossConfig", "create_task"):
        if not hasattr(module, name):
            return f"has no {name}"
    for name in ("ModelConfig", "LossConfig"):
        section = getattr(module, name)
        if not (isinstance(section, type) and issubclass(section, Section)):
            return f"{name} must be a class made from loader.config.Section, not {reprlib.repr(section)}"
        if problem := _defaults_problem(section):
            return f"{name}{problem}"
    problem = call_problem(module.create_task, ("model", "loss"))
    return f"create_task {problem}" if problem else ""


def _defaults_problem(section: type[Section]) -> str:
    """The first key without a default that the section itself would accept; every process reads it as JSON."""
    try:
        section.model_validate_json(section().model_dump_json(warnings=False))
    except ValidationError as error:
        first = error.errors()[0]
        return f".{'.'.join(map(str, first['loc']))}: has no good default: {first['msg']}"
    except Exception as error:  # validators and default factories are the user's code
        return f": its defaults can't be made: {told(error)}"
    return ""
