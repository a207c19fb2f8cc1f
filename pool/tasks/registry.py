"""Finds a task by name. Free of torch: a task's module names its config at once and its model lazily."""

from __future__ import annotations

import importlib
import traceback
from typing import TYPE_CHECKING, Any, Protocol, cast

from loader.config import Section
from pool.errors import ConfigError

if TYPE_CHECKING:
    from pool.tasks.task import Task

BUILT_IN = {"nnue": "pool.tasks.nnue"}


class TaskModule(Protocol):
    """What a task's module must offer. Importing it must not import torch; calling `create_task` may."""

    ModelConfig: type[Section]
    LossConfig: type[Section]

    def create_task(self, model: Any, loss: Any) -> Task: ...


def told(error: BaseException) -> str:
    """An error of somebody's code in one line, with where it happened."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{error.filename}:{error.lineno}" if isinstance(error, SyntaxError) else f"{place.filename}:{place.lineno}"
    return f"{type(error).__name__}: {' '.join(str(error).split())} ({where})"


def task_module(name: str) -> TaskModule:
    """The module of a built-in task, or the module of that dotted name. Raises ConfigError."""
    path = BUILT_IN.get(name, name)
    unknown = f"task: no task {name!r}; allowed: {', '.join(sorted(BUILT_IN))}, or the name of a module"
    if not all(part.isidentifier() for part in path.split(".")):
        raise ConfigError(unknown)
    try:
        module = importlib.import_module(path)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and (path == missing or path.startswith(f"{missing}.")):
            raise ConfigError(unknown) from None
        raise ConfigError(f"task: module {name!r} can't be imported: {told(error)}") from error
    for attribute in ("ModelConfig", "LossConfig", "create_task"):
        if not hasattr(module, attribute):
            raise ConfigError(f"task: module {name!r} has no {attribute}")
    return cast(TaskModule, module)
