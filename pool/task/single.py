"""A task that is one class, or one object, in a module: what a task's module must offer, made of it. Free of torch.

class MyTask(pool.Task):
    class ModelConfig(loader.Section): ...     # the keys of [model]; none if it is left out
    class LossConfig(loader.Section): ...      # the keys of [loss]; the same
    def __init__(self, model, loss): ...       # with these sections; may be left out
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from loader.plugins.interface import call_problem
from loader.section import Section

_SETTINGS = ("model", "loss")


class SingleTask:
    """`pool.task.registry.TaskModule`, of a class of tasks or of a task."""

    def __init__(self, task: Any) -> None:
        self.ModelConfig = getattr(task, "ModelConfig", Section)
        self.LossConfig = getattr(task, "LossConfig", Section)
        self.EXPORT_SUFFIX = getattr(task, "EXPORT_SUFFIX", "")
        self._task = task

    def create_task(self, model: Any, loss: Any) -> Any:
        """A new object of the class; an object is the task itself."""
        if not isinstance(self._task, type):
            return self._task
        return self._task(model, loss) if _takes_settings(self._task) else self._task()


def as_module(task: Any) -> Any:
    """`found`, or what makes a module's names of it if it is a task or a class of them."""
    is_task = not isinstance(task, ModuleType) and hasattr(task, "build_model") and not hasattr(task, "create_task")
    return SingleTask(task) if is_task else task


def _takes_settings(cls: type) -> bool:
    """Returns whether it has an __init__ of its own that takes both sections. That of a Protocol takes anything, and
    fails."""
    own = next(base for base in cls.__mro__ if "__init__" in vars(base))
    return not getattr(own, "_is_protocol", False) and not call_problem(cls, _SETTINGS)
