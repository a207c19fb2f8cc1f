"""Tasks whose models change their own buffers, and hold hooks and names that a run must keep."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import pool
from pool.nn.batch import TensorBatch
from pool.task.task import Progress


class Net(nn.Module):
    seen: Tensor
    mean: Tensor

    def __init__(self, *, anew: bool) -> None:
        super().__init__()
        self.first, self.last = pool.SparseLinear(1000, 8), nn.Linear(8, 1)
        self.hooked, self.one, self.other = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.other.weight = self.one.weight
        self.hooked.weight.register_hook(torch.zeros_like)
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(8), persistent=False)
        self.anew = anew

    def forward(self, batch: TensorBatch) -> Tensor:
        x = torch.relu(self.first(batch.sparse["features"]))
        if self.training and self.anew:
            self.seen = self.seen + 1
            self.mean = 0.5 * self.mean + x.detach().mean(0)
        elif self.training:
            self.seen += 1
            self.mean.mul_(0.5).add_(x.detach().mean(0))
        x = self.one(torch.relu(self.other(torch.relu(self.hooked(x - self.mean)))))
        out: Tensor = self.last(x).squeeze(1)
        return out


class Anew(pool.Task):
    def build_model(self) -> nn.Module:
        return Net(anew=True)

    def loss(self, model: nn.Module, batch: TensorBatch, progress: Progress) -> Tensor:  # noqa: ARG002
        return nn.functional.mse_loss(model(batch), batch.dense["target"])


class InPlace(Anew):
    def build_model(self) -> nn.Module:
        return Net(anew=False)


class Given(Anew):
    """Begins with weights that it binds anew, and after each step does that, too, and counts in a buffer."""

    def initialize(self, model: Any) -> None:
        model.last.weight = nn.Parameter(torch.full((1, 8), 2.0))
        model.one.bias.data = torch.full((8,), 3.0)

    def after_step(self, model: Any) -> None:
        model.seen = model.seen + 1
        model.last.bias = nn.Parameter(torch.full((1,), float(model.seen)))
        model.other.bias.data = torch.full((8,), 4.0)


class Unfreezing(Anew):
    def build_model(self) -> nn.Module:
        net = Net(anew=False)
        net.last.requires_grad_(requires_grad=False)
        return net

    def loss(self, model: Any, batch: TensorBatch, progress: Progress) -> Tensor:
        model.last.requires_grad_(progress.fraction >= 0.5)
        return super().loss(model, batch, progress)
