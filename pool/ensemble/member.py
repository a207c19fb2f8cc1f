"""One network of a run with its task: asked for losses, and watched for what would change later batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor, nn

from loader.plugins.error_text import PluginError, definition_of
from pool.device.precision import arithmetic_settings
from pool.ensemble.metric_values import collect
from pool.exchange.tensors import all_tensors, replace_tensors, trained
from pool.nn.batch import TensorBatch
from pool.nn.generators import GeneratorStates
from pool.task.attributes import Attribute
from pool.task.factory import build_model
from pool.task.task import MeasuredTask, Progress, Task


@dataclass(frozen=True)
class Member:
    task: Task
    model: nn.Module
    seed: int  # of first weights, and of what a batch draws: dropout, noise around lambda
    settings: object  # of its task: one call of the task can serve members with equal ones
    drawn: GeneratorStates | None = None  # when the model was built
    attributes: list[Attribute] = field(default_factory=list)  # of task and model
    on_meta: bool = False  # the model was built without numbers

    def another_model(self) -> nn.Module:
        """Returns a second model like the member's, its weights without numbers; generators stay as they are."""
        before = GeneratorStates.now()
        model = build_model(self.task, self.seed, on_meta=self.on_meta)
        before.restore()
        replace_tensors(model, [tensor.detach().to("meta") for _, tensor in all_tensors(model)])
        return model

    def loss(self, batch: TensorBatch, progress: Progress, *, backward: bool) -> Tensor:
        """Returns the task's loss: one number. Raises PluginError if that can't be used."""
        with self._watched("loss", self.task.loss):
            loss = self.task.loss(self.model, batch, progress)
            if problem := problem_of(loss, backward=backward):
                raise PluginError(f"loss {problem} ({definition_of(self.task.loss)})")
        return loss

    def measure(self, batch: TensorBatch, progress: Progress, collected: Mapping[str, npt.NDArray[Any]]) -> Tensor:
        """Returns the loss without backward, of a task with metrics; what they need goes into `collected`."""
        assert isinstance(self.task, MeasuredTask)
        validate = self.task.validate
        with self._watched("validate", validate):
            result = validate(self.model, batch, progress)
            if problem := collect(result, collected):
                raise PluginError(f"validate {problem} ({definition_of(validate)})")
            if problem := problem_of(result[0], backward=False):
                raise PluginError(f"the loss of validate {problem} ({definition_of(validate)})")
        return result[0]

    @contextmanager
    def _watched(self, name: str, method: Callable[..., Any]) -> Iterator[None]:
        """Raises PluginError if the task's method, called inside, has changed what later batches depend on (I2)."""
        weights, settings = self._weights_seen(), _torch_settings()
        yield
        if problem := self._change(weights, settings):
            raise PluginError(f"{name} {problem} ({definition_of(method)})")

    @cached_property
    def _named(self) -> dict[str, nn.Parameter]:
        return dict(trained(self.model))

    def _weights_seen(self) -> dict[str, tuple[int, int]]:
        """Changes with what is done to the weights in place, and with what is put in their stead."""
        return {name: (weight._version, weight.data_ptr()) for name, weight in self._named.items()}

    def _change(self, weights: Mapping[str, object], settings: Mapping[str, object]) -> str:
        if now := _first_difference(weights, self._weights_seen()):
            return f"changes {now}: only after_step may change weights"
        if now := _first_difference(settings, _torch_settings()):
            return f"changes torch's {now}: later batches would be computed with it; set it in create_task"
        return ""


def problem_of(loss: object, *, backward: bool) -> str:
    """Why what a task's `loss` gave can't be used; empty if it can."""
    if not isinstance(loss, Tensor):
        return f"gave {type(loss).__name__}, which is no tensor"
    if loss.numel() != 1:
        return f"gave a tensor of shape {tuple(loss.shape)}: it must be one number, the mean over the batch's samples"
    if loss.is_complex() or loss.is_meta:
        return f"gave a number that is {'complex' if loss.is_complex() else 'on the device meta'}"
    if backward and not loss.requires_grad:
        return "gave a number without gradient: it was computed from no weights, or under no_grad or detach"
    return ""


def _torch_settings() -> dict[str, object]:
    """Returns the settings of torch in this process that a batch must leave as they were."""
    return {
        "grad mode": torch.is_grad_enabled(),
        "default dtype": torch.get_default_dtype(),
        "number of threads": torch.get_num_threads(),
        "deterministic mode": torch.are_deterministic_algorithms_enabled(),
        **arithmetic_settings(),
    }


def _first_difference(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    return next((name for name, value in before.items() if after[name] != value), "")
