"""The interface between the runtime and what it trains. The runtime knows nothing else about a task."""

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
    """The place of a batch in the run: what a schedule inside the loss may depend on."""

    step: int
    total_steps: int
    seed: int | None = None  # the member's run.model_seed, for what is drawn; none in validations

    @property
    def fraction(self) -> float:
        """0 at the first step, approaching 1 at the last."""
        return self.step / max(1, self.total_steps)


class Task(Protocol):
    """Made from the validated `model` and `loss` sections of the config; see pool.task.registry.

    A class derived from this one inherits methods that do nothing, but for `build_model` and `loss`.
    """

    def check(self, schema: BatchSchema) -> None:
        """Raises ValueError, with the config key to change, if this net can't read such batches."""
        return

    def build_model(self) -> nn.Module:
        """The model, freshly initialised from torch's default generator (which the caller has seeded)."""

    def initialize(self, model: nn.Module) -> None:
        """Called once, in the coordinator, at the start of a run that is not resumed: e.g. load a given net."""
        return

    def loss(self, model: nn.Module, batch: TensorBatch, progress: Progress) -> Tensor:
        """The mean loss over the samples of one batch, a scalar that backward() is called on."""

    def after_step(self, model: nn.Module) -> None:
        """Called in the coordinator after each optimizer step, before the weights are published: clip here, in place,
        by operations on the parameters themselves (what is done to their `.data` the pool does not see)."""
        return

    def export(self, model: nn.Module, path: Path, description: str) -> None:
        """Writes the trained network in the format of its user. ValueError names what does not fit."""
        return


@runtime_checkable
class HeaderTask(Protocol):
    """The methods of a task if `pool export --header` can describe its files in source code."""

    def header(self, model: nn.Module, path: Path, language: str) -> str:
        """Source in that language (c, rust) for the file `path` that `export` writes. Raises ValueError."""
        ...


@runtime_checkable
class ReorderingTask(Protocol):
    """The methods of a task if `pool export --permute` can put its network's units into an order that its user reads
    faster."""

    def reorder(self, model: nn.Module, patterns: Sequence[str]) -> str:
        """Changes the order in place, by what the network does with the data that the patterns name; the function that
        it computes stays the same. Returns what that gains, in words. Raises ValueError, DataError."""
        ...


@runtime_checkable
class MeasuredTask(Protocol):
    """The methods that a Task may have besides: numbers of its own for each validation."""

    def metrics(self, schema: BatchSchema) -> Mapping[str, Metric]:
        """The numbers by name; the same whenever it is asked with this schema. `schema`: of the run's batches."""

    def validate(self, model: nn.Module, batch: TensorBatch, progress: Progress) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Called in place of `loss` for a validation batch, under no_grad: the loss as `loss` gives it, and exactly the
        arrays that the metrics name, in the order of the batch's samples: [batch_size] or [batch_size, width]."""
