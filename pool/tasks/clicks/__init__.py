"""The probability of a class from sparse rows, such as that of a click from a user, an item and a page: logistic
regression, a factorization machine, or a small network over embeddings.

Importing this does not import torch; `create_task` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pool.tasks.clicks.config import LossConfig, ModelConfig

if TYPE_CHECKING:
    from loader.section import Section
    from pool.tasks.clicks.task import ClicksTask

__all__ = ["EXPORT_SUFFIX", "LossConfig", "ModelConfig", "complete_model", "create_task"]

EXPORT_SUFFIX = ".safetensors"


def complete_model(model: Section, data: Section | None) -> Section:
    """Raises ValueError for rows without the labels that a model is trained with."""
    if getattr(data, "label", None) == "none":
        raise ValueError(
            "data.rows.label: none leaves out the labels that the task clicks needs; it is for pool predict"
        )
    return model


def create_task(model: ModelConfig, loss: LossConfig) -> ClicksTask:
    """The task of a run with these settings."""
    from pool.tasks.clicks.task import ClicksTask

    return ClicksTask(model, loss)
