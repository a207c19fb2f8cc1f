"""Lets one class, or one object, in a module be a task: makes from it the names that a task's module must offer. Free
of torch.

class MyTask(pool.Task):
    class ModelConfig(loader.Section): ...     # the keys of [model]; none if it is left out
    class LossConfig(loader.Section): ...      # the keys of [loss]; the same
    def __init__(self, model, loss): ...       # with these sections; may be left out
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from loader.plugins.interface import find_call_problem
from loader.section import Section

_SETTINGS = ("model", "loss")


class SingleTask:
    """Adapts a class of tasks, or one task object, to the interface pool.task.registry.TaskModule."""

    def __init__(self, task: Any) -> None:
        self.ModelConfig = getattr(task, "ModelConfig", Section)
        self.LossConfig = getattr(task, "LossConfig", Section)
        self.EXPORT_SUFFIX = getattr(task, "EXPORT_SUFFIX", "")
        self._task = task

    def create_task(self, model: Any, loss: Any) -> Any:
        """Returns a new object of the task's class. If a task object was given, returns that object."""
        if not isinstance(self._task, type):
            return self._task
        return self._task(model, loss) if _takes_settings(self._task) else self._task()


def wrap_single_task(task: Any) -> Any:
    """Returns `task` wrapped in a SingleTask if it is a task or a class of tasks. Returns anything else, such as a
    module, as it is."""
    is_task = not isinstance(task, ModuleType) and hasattr(task, "build_model") and not hasattr(task, "create_task")
    return SingleTask(task) if is_task else task


def _takes_settings(cls: type) -> bool:
    """Returns whether the class has an `__init__` that accepts the sections `model` and `loss`. The `__init__` of a
    Protocol does not count, as it accepts anything and then fails."""
    defining_class = next(base for base in cls.__mro__ if "__init__" in vars(base))
    if getattr(defining_class, "_is_protocol", False):
        return False
    return not find_call_problem(cls, _SETTINGS)
