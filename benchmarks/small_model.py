"""The torch part of the small task."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.small_source import FIELD, LABEL
from loader.stream.schema import BatchSchema
from pool.nn.batch import SparseInput, TensorBatch
from pool.nn.sparse_linear import SparseLinear
from pool.task.task import Progress


class SmallModel(nn.Module):
    """A first layer over sparse rows, then dense ones."""

    def __init__(self, first: nn.Module, layers: Sequence[int]) -> None:
        super().__init__()
        self.first = first
        dense: list[nn.Module] = []
        for inputs, outputs in pairwise([*layers, 1]):
            dense += [nn.ReLU(), nn.Linear(inputs, outputs)]
        self.rest = nn.Sequential(*dense)

    def forward(self, *rows: Tensor | SparseInput) -> Tensor:
        out: Tensor = self.rest(self.first(*rows))
        return out.squeeze(1)


class SmallTask:
    def __init__(self, num_features: int, layers: Sequence[int]) -> None:
        self._num_features = num_features
        self._layers = layers

    def check(self, schema: BatchSchema) -> None:
        pass

    def build_model(self) -> nn.Module:
        return SmallModel(SparseLinear(self._num_features, [*self._layers, 1][0]), self._layers)

    def initialize(self, model: nn.Module) -> None:
        pass

    def loss(self, model: nn.Module, batch: TensorBatch, progress: Progress) -> Tensor:  # noqa: ARG002
        return functional.binary_cross_entropy_with_logits(model(batch.sparse[FIELD]), batch.dense[LABEL])

    def after_step(self, model: nn.Module) -> None:
        pass

    def export(self, model: nn.Module, path: Path, description: str) -> None:  # noqa: ARG002
        torch.save(model.state_dict(), path)
