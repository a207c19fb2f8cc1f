"""A task that indexes a small table many times: without torch's deterministic mode its gradient differs from run to run
as soon as two threads add to it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import pool
from pool.nn.batch import TensorBatch
from pool.task.task import Progress

ROWS, WIDTH, LOOKUPS = 50, 16, 200_000  # from some 3 million numbers on torch's index_put adds with several threads


class Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(ROWS, WIDTH))


class Indexing(pool.Task):
    def build_model(self) -> nn.Module:
        return Table()

    def loss(self, model: nn.Module, batch: TensorBatch, progress: Progress) -> Tensor:  # noqa: ARG002
        numbers = torch.Generator().manual_seed(batch.number)
        rows = torch.randint(0, ROWS, (LOOKUPS,), generator=numbers)
        factors = torch.randn(LOOKUPS, WIDTH, generator=numbers)
        weight = model.weight
        assert isinstance(weight, Tensor)
        return ((weight[rows] * factors).sum(1) - batch.dense["target"].mean()).square().mean()
