"""Calls the task of a member, one network of a run, and refuses effects on later batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor, nn

from loader.plugins.error_text import PluginError, definition_location
from pool.device.precision import read_arithmetic_settings
from pool.ensemble.metric_values import collect_arrays
from pool.exchange.tensors import all_tensors, replace_tensors, trained_parameters
from pool.nn.batch import TensorBatch
from pool.nn.generators import GeneratorStates
from pool.task.attributes import Attribute
from pool.task.factory import build_model
from pool.task.task import MeasuredTask, Progress, Task


@dataclass(frozen=True)
class Member:
    """Holds one network of a run with its task, and the seed and settings from which both were built."""

    task: Task
    model: nn.Module
    seed: int  # of initial weights, and of random numbers in batches (dropout, noise around lambda)
    settings: object  # of its task; members with equal ones can share a call of the task
    initial_generators: GeneratorStates | None = None  # states when the model was built
    attributes: list[Attribute] = field(default_factory=list)  # of task and model
    on_meta: bool = False  # the model was built without values

    def build_meta_copy(self) -> nn.Module:
        """Builds a second model like the member's, with weights on the meta device. Random generators are left
        unchanged."""
        generators = GeneratorStates.capture()
        model = build_model(self.task, self.seed, on_meta=self.on_meta)
        generators.restore()
        replace_tensors(model, [tensor.detach().to("meta") for _, tensor in all_tensors(model)])
        return model

    def loss(self, batch: TensorBatch, progress: Progress, *, backward: bool) -> Tensor:
        """Computes the task's loss of a batch, a single number. Raises PluginError if the result can't be used."""
        with self._check_side_effects("loss", self.task.loss):
            loss = self.task.loss(self.model, batch, progress)
            problem = find_loss_problem(loss, backward=backward)
            if problem:
                raise PluginError(f"loss {problem} ({definition_location(self.task.loss)})")
        return loss

    def measure(self, batch: TensorBatch, progress: Progress, collected: Mapping[str, npt.NDArray[Any]]) -> Tensor:
        """Computes the loss of a batch without gradients, for a task with metrics. The metrics' arrays go into
        `collected`.

        Raises PluginError if the result can't be used.
        """
        assert isinstance(self.task, MeasuredTask)
        validate = self.task.validate
        with self._check_side_effects("validate", validate):
            result = validate(self.model, batch, progress)
            problem = collect_arrays(result, collected)
            if problem:
                raise PluginError(f"validate {problem} ({definition_location(validate)})")
            problem = find_loss_problem(result[0], backward=False)
            if problem:
                raise PluginError(f"the loss of validate {problem} ({definition_location(validate)})")
        return result[0]

    @contextmanager
    def _check_side_effects(self, name: str, method: Callable[..., Any]) -> Iterator[None]:
        """Raises PluginError if the code within the context changes weights or torch's settings.

        Later batches would depend on such a change (invariant I2).
        """
        weights, settings = self._weight_versions(), _torch_settings()
        yield
        problem = self._find_change(weights, settings)
        if problem:
            raise PluginError(f"{name} {problem} ({definition_location(method)})")

    @cached_property
    def _trained(self) -> dict[str, nn.Parameter]:
        """Returns the trained parameters of the model, by name."""
        return dict(trained_parameters(self.model))

    def _weight_versions(self) -> dict[str, tuple[int, int]]:
        """Returns version and address of each weight. They differ after a change in place, or a replacement."""
        return {name: (weight._version, weight.data_ptr()) for name, weight in self._trained.items()}

    def _find_change(self, weights: Mapping[str, object], settings: Mapping[str, object]) -> str:
        """Describes the first change of weights or torch's settings since these were read; "" if there is none."""
        weight = _first_difference(weights, self._weight_versions())
        if weight:
            return f"changes {weight}: only after_step may change weights"
        setting = _first_difference(settings, _torch_settings())
        if setting:
            return f"changes torch's {setting}: later batches would be computed with it; set it in create_task"
        return ""


def find_loss_problem(loss: object, *, backward: bool) -> str:
    """Describes why the result of a task's `loss` can't be used; "" if it can."""
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
    """Returns the settings of torch in this process that a batch must not change."""
    return {
        "grad mode": torch.is_grad_enabled(),
        "default dtype": torch.get_default_dtype(),
        "number of threads": torch.get_num_threads(),
        "deterministic mode": torch.are_deterministic_algorithms_enabled(),
        **read_arithmetic_settings(),
    }


def _first_difference(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    """Returns the name of the first value that has changed; "" if none has."""
    for name, value in before.items():
        if after[name] != value:
            return name
    return ""
