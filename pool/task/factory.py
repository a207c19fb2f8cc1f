"""Makes a run's task and its models, alike in every process of the run. Before a run begins, checks that the task has
the methods that the runtime will call (pool.task.task)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from loader.plugins.interface import find_interface_problem
from loader.stream.schema import BatchSchema
from pool.errors import ConfigError
from pool.metrics.metric import Metric
from pool.nn.generators import seed_generators
from pool.task.registry import load_task_module
from pool.task.start import task_model_section
from pool.task.task import MeasuredTask, Task

MAX_MODEL_NBYTES = 1 << 30  # bytes; larger models are built on the meta device where no numbers are needed
_FACTORIES = frozenset(
    {torch.arange, torch.empty, torch.eye, torch.full, torch.linspace, torch.ones, torch.rand, torch.randint}
    | {torch.randn, torch.randperm, torch.zeros}
)
_NOT_ON_META = ("generator", "pin_memory")  # arguments of these functions that the meta device does not take


class ModelTooLargeError(BaseException):
    """Says that a model is larger than allowed. It is no Exception, so that a task's own code does not catch it."""


class TensorBytesLimit(TorchFunctionMode):
    """Limits the bytes of the tensors that torch's factory functions make inside this context. Raises
    TooManyNumbersError before a tensor is made that would exceed the limit."""

    def __init__(self, nbytes: int) -> None:
        super().__init__()
        self._remaining_nbytes = nbytes

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Counts the bytes of the tensor that a factory function would make, by making it on the meta device first."""
        kwargs = kwargs or {}
        if func in _FACTORIES and "out" not in kwargs and str(kwargs.get("device")) != "meta":
            meta_kwargs = {key: value for key, value in kwargs.items() if key not in _NOT_ON_META}
            meta_kwargs["device"] = "meta"
            tensor: Tensor = func(*args, **meta_kwargs)
            self._remaining_nbytes -= tensor.nbytes
            if self._remaining_nbytes < 0:
                raise ModelTooLargeError
        return func(*args, **kwargs)


def make_task(name: str, model: Any, loss: Any, seed: int = 0) -> Task:
    """Returns the task `name`, made from the config's sections `model` and `loss`. Seeds all generators with `seed`
    first, as the task may draw numbers when it is made. Raises ConfigError if the result is no task, and whatever the
    task's own code raises."""
    module = load_task_module(name)
    seed_generators(seed)
    task = module.create_task(task_model_section(model), loss)
    problem = find_interface_problem(task, Task, "a task")
    if not problem and hasattr(task, "metrics"):
        problem = find_interface_problem(task, MeasuredTask, "a task with metrics")
    if problem:
        raise ConfigError(f"task: {name}: {problem}")
    return task


def build_model(task: Task, seed: int, *, on_meta: bool = False) -> nn.Module:
    """Returns a new model of the task. The same seed gives the same model in each call. With `on_meta` its tensors are
    on torch's meta device and have no numbers. Raises whatever the task's own code raises."""
    seed_generators(seed)
    with torch.device("meta") if on_meta else nullcontext():
        return task.build_model()


def task_metrics(task: Task, schema: BatchSchema) -> Mapping[str, Metric]:
    """Returns the task's metrics by name, or an empty mapping if it has none. Raises whatever the task's own code
    raises."""
    return task.metrics(schema) if isinstance(task, MeasuredTask) else {}
