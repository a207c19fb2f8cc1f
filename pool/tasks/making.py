"""Makes a run's task, and compares it with what the runtime will call (pool.tasks.task) before a run begins."""

from __future__ import annotations

from typing import Any

from loader.plugins.interface import interface_problem
from pool.errors import ConfigError
from pool.tasks.registry import task_module
from pool.tasks.start import own_model
from pool.tasks.task import Task


def make_task(name: str, model: Any, loss: Any) -> Task:
    """`model` and `loss`: those sections of the config. Raises ConfigError for what is no task, and whatever the task's
    own code raises."""
    task = task_module(name).create_task(own_model(model), loss)
    if problem := interface_problem(task, Task, "a task"):
        raise ConfigError(f"task: {name}: {problem}")
    return task
