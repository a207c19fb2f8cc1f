"""The network of Stockfish 15.1: training it, and reading, writing and evaluating its .nnue files.

Importing this does not import torch; `create_task` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pool.tasks.nnue.config import LossConfig, ModelConfig

if TYPE_CHECKING:
    from pool.tasks.nnue.task import NnueTask

__all__ = ["COMMANDS", "EXPORT_SUFFIX", "LossConfig", "ModelConfig", "create_task"]

COMMANDS = "pool.tasks.nnue.cli"
EXPORT_SUFFIX = ".nnue"


def create_task(model: ModelConfig, loss: LossConfig) -> NnueTask:
    """The task of a run with these settings."""
    from pool.tasks.nnue.task import NnueTask

    return NnueTask(model, loss)
