"""Makes a run's task, and compares it with what the runtime will call (pool.tasks.task) before a run begins."""

from __future__ import annotations

import inspect
from typing import Any

from pool.errors import ConfigError
from pool.failure import told
from pool.tasks.registry import call_problem, task_module
from pool.tasks.start import own_model
from pool.tasks.task import Task


def make_task(name: str, model: Any, loss: Any) -> Task:
    """`model` and `loss`: those sections of the config. Raises ConfigError for what is no task, and whatever the task's
    own code raises."""
    task = task_module(name).create_task(own_model(model), loss)
    if isinstance(task, type):
        raise ConfigError(f"task: {name}: create_task gives the class {task.__name__}, not an object of it")
    for method, wanted in _methods().items():
        if problem := _problem(task, method, wanted):
            raise ConfigError(f"task: {name}: {type(task).__name__}.{method} {problem}")
    return task


def _methods() -> dict[str, list[str]]:
    """Names of the interface's methods, and of the arguments that each is called with."""
    return {
        name: list(inspect.signature(function).parameters)[1:]
        for name, function in vars(Task).items()
        if inspect.isfunction(function) and not name.startswith("_")
    }


def _problem(task: object, method: str, wanted: list[str]) -> str:
    try:
        found = getattr(task, method)
    except AttributeError:
        return f"is missing: a task must have {method}({', '.join(wanted)})"
    except Exception as error:
        return f"can't be had: {told(error)}"
    return call_problem(found, wanted)
