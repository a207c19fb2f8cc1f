"""A task that is wrong in the way that `model.kind` names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loader.section import Section

if TYPE_CHECKING:
    from pool.task.task import Task


class ModelConfig(Section):
    kind: str = "good"


class LossConfig(Section):
    pass


def create_task(model: ModelConfig, loss: LossConfig) -> Task:  # noqa: ARG001
    from tests.support.tasks import odd_models

    task: Any = odd_models.OddTask(model.kind)
    return task  # type: ignore[no-any-return]
