"""The task `perspective`: networks that see a position from both sides' perspective, (inputs -> N)x2 -> ... -> 1, as
most chess engines but Stockfish use. Trains them, and reads, writes and evaluates files of bullet's format.

Importing this does not import torch; `create_task` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pool.tasks.chess.perspective.config import LossConfig, ModelConfig, complete_model

if TYPE_CHECKING:
    from pool.tasks.chess.perspective.task import PerspectiveTask
    from pool.tasks.chess.training.config import LossConfig as ChessLossConfig

# late imports: the supervisor reads a task's settings, and never loads torch

__all__ = [
    "EXPORT_SUFFIX",
    "NETWORKS",
    "SCORE_SCALES",
    "SCORE_UNIT",
    "LossConfig",
    "ModelConfig",
    "complete_model",
    "create_task",
]

NETWORKS = "pool.tasks.chess.perspective.network"
EXPORT_SUFFIX = ".bin"
SCORE_UNIT = "centipawns"  # unit of the networks' evaluations
SCORE_SCALES = {"internal units": 0.277}  # factors that convert scores of other units to this one


def create_task(model: ModelConfig, loss: ChessLossConfig) -> PerspectiveTask:
    """Makes the task of a run with these settings."""
    from pool.tasks.chess.perspective.task import PerspectiveTask  # late: torch

    return PerspectiveTask(model, loss)
