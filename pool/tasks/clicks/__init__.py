"""The task `clicks`: predicts the probability of a class from sparse rows, such as that of a click from a user, an item
and a page. Models: logistic regression, a factorization machine, or a small network over embeddings.

Importing this does not import torch; `create_task` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pool.tasks.clicks.config import LossConfig, ModelConfig, complete_model

if TYPE_CHECKING:
    from pool.tasks.clicks.task import ClicksTask

# late imports: the supervisor reads a task's settings, and never loads torch

__all__ = ["EXPORT_SUFFIX", "LossConfig", "ModelConfig", "complete_model", "create_task"]

EXPORT_SUFFIX = ".safetensors"


def create_task(model: ModelConfig, loss: LossConfig) -> ClicksTask:
    """Makes the task of a run with these settings."""
    from pool.tasks.clicks.task import ClicksTask  # late: torch

    return ClicksTask(model, loss)
