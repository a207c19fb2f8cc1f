"""Defines the interface between the runtime and what it trains. The runtime knows nothing else about a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from loader.stream.schema import BatchSchema
from pool.metrics.metric import Metric
from pool.nn.batch import TensorBatch


@dataclass(frozen=True)
class Progress:
    """The position of a batch in the run, which a schedule inside the loss may depend on."""

    step: int
    total_steps: int
    seed: int | None = None  # run.model_seed of this network, for random draws; None in validations

    @property
    def fraction(self) -> float:
        """The share of the run's steps that are done: 0 at the first step, approaching 1 at the last."""
        return self.step / max(1, self.total_steps)


class Task(Protocol):
    """Defines what a run trains: its model, its loss and its exported file.

    A task is made from the validated `model` and `loss` sections of the config (see pool.task.registry). A class
    derived from this one must define `build_model` and `loss`. The other methods do nothing unless they are overridden.
    """

    def check(self, schema: BatchSchema) -> None:
        """Checks that the model can read batches of this schema. Raises ValueError, which names the config key to
        change, if it can't."""
        return

    def build_model(self) -> nn.Module:
        """Returns a new model, initialised from torch's default generator. The caller seeds that generator."""

    def initialize(self, model: nn.Module) -> None:
        """Changes the first weights of a new run in place, such as to those of a file. It is called once, in the
        coordinator, and not in a run that is resumed."""
        return

    def loss(self, model: nn.Module, batch: TensorBatch, progress: Progress) -> Tensor:
        """Returns the mean loss over the samples of one batch: a scalar on which backward() is called."""

    def after_step(self, model: nn.Module) -> None:
        """Changes the weights in place after each optimizer step, such as by clipping them. It is called in the
        coordinator, before the weights are published.

        Change the parameters by operations on themselves: changes of their `.data` go unnoticed.
        """
        return

    def export(self, model: nn.Module, path: Path, description: str) -> None:
        """Writes the trained network to `path` in the format of its user. Raises ValueError that names the value that
        does not fit the format."""
        return


@runtime_checkable
class HeaderTask(Protocol):
    """Defines the method that a task needs for `pool export --header`, which describes its files in source code."""

    def header(self, model: nn.Module, path: Path, language: str) -> str:
        """Returns source code in `language` ("c" or "rust") that describes the file `path` as `export` writes it.
        Raises ValueError."""
        ...


@runtime_checkable
class ReorderingTask(Protocol):
    """Defines the method that a task needs for `pool export --permute`, which puts the network's units into an order
    that its user reads faster."""

    def reorder(self, model: nn.Module, patterns: Sequence[str]) -> str:
        """Reorders the model's units in place, by their activations on the data files that the patterns match. The
        function that the network computes stays the same. Returns a text that says what the new order gains. Raises
        ValueError or DataError."""
        ...


@runtime_checkable
class MeasuredTask(Protocol):
    """Defines the methods of a task that measures metrics of its own in each validation."""

    def metrics(self, schema: BatchSchema) -> Mapping[str, Metric]:
        """Returns the task's metrics by name, for batches of this schema. The same schema must always give the same
        metrics."""

    def validate(self, model: nn.Module, batch: TensorBatch, progress: Progress) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Returns the loss of a validation batch, as `loss` does, and the arrays that the metrics name. Each array is
        [batch_size] or [batch_size, width], in the order of the batch's samples. It is called in place of `loss`, under
        no_grad."""
