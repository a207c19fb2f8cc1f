"""The task `stockfish`: trains Stockfish's networks, and reads, writes and evaluates their .nnue files.

Importing this does not import torch; `create_task` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pool.tasks.chess.stockfish.config import ModelConfig, complete_model
from pool.tasks.chess.training.config import LossConfig

if TYPE_CHECKING:
    from pool.tasks.chess.stockfish.task import StockfishTask

# late imports: the supervisor reads a task's settings, and never loads torch

__all__ = [
    "COMMANDS",
    "EXPORT_SUFFIX",
    "NETWORKS",
    "SCORE_SCALES",
    "SCORE_UNIT",
    "LossConfig",
    "ModelConfig",
    "complete_model",
    "create_task",
]

COMMANDS = "pool.tasks.chess.networks"
NETWORKS = "pool.tasks.chess.stockfish.network"
EXPORT_SUFFIX = ".nnue"
SCORE_UNIT = "internal units"  # unit of the networks' evaluations
SCORE_SCALES = {"centipawns": 3.61}  # factors that convert scores of other units to this one


def create_task(model: ModelConfig, loss: LossConfig) -> StockfishTask:
    """Makes the task of a run with these settings."""
    from pool.tasks.chess.stockfish.task import StockfishTask  # late: torch

    return StockfishTask(model, loss)
