"""Makes a run's task, and compares it with what the runtime will call (pool.tasks.task) before a run begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loader.batch.schema import BatchSchema
from loader.plugins.interface import interface_problem
from pool.errors import ConfigError
from pool.metrics.metric import Metric
from pool.tasks.registry import task_module
from pool.tasks.start import own_model
from pool.tasks.task import MeasuredTask, Task


def make_task(name: str, model: Any, loss: Any) -> Task:
    """`model` and `loss`: those sections of the config. Raises ConfigError for what is no task, and whatever the task's
    own code raises."""
    task = task_module(name).create_task(own_model(model), loss)
    if problem := interface_problem(task, Task, "a task"):
        raise ConfigError(f"task: {name}: {problem}")
    if hasattr(task, "metrics") and (problem := interface_problem(task, MeasuredTask, "a task with metrics")):
        raise ConfigError(f"task: {name}: {problem}")
    return task


def metrics_of(task: Task, schema: BatchSchema) -> Mapping[str, Metric]:
    """The task's numbers by name; none if it has no metrics. Raises whatever the task's own code raises."""
    return task.metrics(schema) if isinstance(task, MeasuredTask) else {}
