"""The torch part of the toy task."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import torch
from torch import Tensor, nn

from loader.stream.schema import BatchSchema
from pool.nn.batch import TensorBatch
from pool.nn.sparse_linear import SparseLinear
from pool.task.task import Progress
from tests.support.toy import LossConfig, ModelConfig


class ToyModel(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.table = SparseLinear(config.num_features, config.hidden)
        self.norm = nn.BatchNorm1d(config.hidden) if config.batch_norm else nn.Identity()
        self.dropout = nn.Dropout(config.dropout) if config.dropout else nn.Identity()
        self.extra = nn.Linear(config.hidden, config.hidden)
        self.output = nn.Linear(config.hidden, 1)
        if config.gain:
            self.gain = nn.Parameter(torch.tensor(1.0))
        self.unused_every = config.unused_every
        self.deadly_batch = config.deadly_batch

    def forward(self, batch: TensorBatch) -> Tensor:
        if batch.number == self.deadly_batch:
            os.kill(os.getpid(), signal.SIGKILL)
        hidden = torch.relu(self.dropout(self.norm(self.table(batch.sparse["features"]))))
        if self.unused_every == 0 or batch.number % self.unused_every == 0:
            hidden = hidden + torch.tanh(self.extra(hidden))
        output: Tensor = self.output(hidden)
        return (output * self.gain if hasattr(self, "gain") else output).squeeze(1)


class ToyTask:
    def __init__(self, model: ModelConfig, loss: LossConfig) -> None:
        self._model = model
        self._loss = loss

    def check(self, schema: BatchSchema) -> None:
        if schema.sparse[0].num_features != self._model.num_features:
            raise ValueError(
                f"model.num_features: {self._model.num_features}, data has {schema.sparse[0].num_features}"
            )

    def build_model(self) -> nn.Module:
        return ToyModel(self._model)

    def initialize(self, model: nn.Module) -> None:
        pass

    def loss(self, model: nn.Module, batch: TensorBatch, progress: Progress) -> Tensor:  # noqa: ARG002
        output = model(batch)
        loss = self._loss.scale * nn.functional.mse_loss(output, batch.dense["target"])
        if batch.number == self._loss.infinite_gradient_of_batch:
            loss = loss + (output * 0).abs().sqrt().sum()
        return loss

    def predict(self, model: nn.Module, batch: TensorBatch) -> Tensor:
        output: Tensor = model(batch)
        return output

    def after_step(self, model: nn.Module) -> None:
        pass

    def export(self, model: nn.Module, path: Path, description: str) -> None:
        path.write_text(f"{description} {sum(p.numel() for p in model.parameters())}", encoding="utf-8")
