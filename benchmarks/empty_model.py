"""The torch part of the empty task."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from loader.stream.schema import BatchSchema
from pool.nn.batch import TensorBatch
from pool.task.task import Progress, Task


class EmptyModel(nn.Module):
    def __init__(self, numbers: int) -> None:
        super().__init__()
        self.parameter = nn.Parameter(torch.zeros(numbers))


class EmptyTask(Task):
    def __init__(self, numbers: int) -> None:
        self._numbers = numbers

    def check(self, schema: BatchSchema) -> None:
        pass

    def build_model(self) -> nn.Module:
        return EmptyModel(self._numbers)

    def initialize(self, model: nn.Module) -> None:
        pass

    def loss(self, model: nn.Module, batch: TensorBatch, progress: Progress) -> Tensor:  # noqa: ARG002
        return model.get_parameter("parameter").sum()

    def export(self, model: nn.Module, path: Path, description: str) -> None:
        raise NotImplementedError
