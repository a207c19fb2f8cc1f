"""The base class of the tasks for chess: the loss of a batch, predictions, and reordering for export."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from pool.nn.batch import TensorBatch
from pool.task.task import Progress
from pool.tasks.chess.network import FileNetwork
from pool.tasks.chess.pair_order import reorder
from pool.tasks.chess.training.config import LossConfig
from pool.tasks.chess.training.loss import batch_loss


class ChessTask(ABC):
    """Trains networks of chess engines on the scores and results of positions."""

    def __init__(self, loss: LossConfig) -> None:
        self._loss = loss

    @abstractmethod
    def network(self, model: nn.Module, description: str = "") -> FileNetwork:
        """Returns the integer network that the model would be exported as. Raises ValueError if a value doesn't fit its
        integer type (pool.tasks.chess.network.NetworkTask)."""

    def loss(self, model: nn.Module, batch: TensorBatch, progress: Progress) -> Tensor:
        """Returns the mean loss of a batch."""
        return batch_loss(self._loss, model(batch), batch, progress)

    def predict(self, model: nn.Module, batch: TensorBatch) -> Tensor:
        """Returns the network's scores [B], in units of the data's score, from the side to move's point of view."""
        output: Tensor = model(batch) * self._loss.output_unit
        return output

    def reorder(self, model: nn.Module, patterns: Sequence[str]) -> str:
        """Reorders the first layer's pairs so that those that are 0 together are neighbours (see
        pool.tasks.chess.pair_order). Returns the gain as a text."""
        of_pairs: Any = model
        return reorder(lambda: self.network(model), of_pairs.reorder_pairs, patterns)
