"""A task with nothing to compute: one parameter, whose gradient is all ones. For what the pool itself costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loader.section import Section

if TYPE_CHECKING:
    from pool.task.task import Task


class ModelConfig(Section):
    numbers: int = 16  # in the parameter


class LossConfig(Section):
    pass


def create_task(model: ModelConfig, loss: LossConfig) -> Task:  # noqa: ARG001
    from benchmarks.empty_model import EmptyTask

    return EmptyTask(model.numbers)
