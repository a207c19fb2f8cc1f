"""A task for benchmarks: binary classification of sparse rows, by logistic regression or a small MLP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from loader.section import Section

if TYPE_CHECKING:
    from pool.task.task import Task


class ModelConfig(Section):
    num_features: int = 1_000_000
    layers: Annotated[
        list[int], Field(default_factory=list)
    ]  # outputs of all layers but the last one, which has one; none: logistic regression


class LossConfig(Section):
    pass


def create_task(model: ModelConfig, loss: LossConfig) -> Task:  # noqa: ARG001
    from benchmarks.small_model import SmallTask

    return SmallTask(model.num_features, model.layers)
