"""Tasks whose code draws numbers, and holds tensors that are neither parameters nor buffers: plain torch allows it."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

import pool

NAMES = ("ctr", "cvr", "dwell", "like", "share", "buy")
AT_IMPORT = random.random(), np.random.rand()


class Net(nn.Module):
    def __init__(self, middle: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.first = pool.SparseLinear(1000, 8)
        self.mid = nn.Linear(8, 8)
        self.last = nn.Linear(8, 1)
        self.middle: Any = middle or torch.relu

    def forward(self, batch: pool.TensorBatch) -> Tensor:
        out: Tensor = self.last(self.middle(self.mid(torch.relu(self.first(batch.sparse["features"])))))
        return out.squeeze(1)


class Plain(pool.Task):
    def build_model(self) -> nn.Module:
        return Net()

    def loss(self, model: nn.Module, batch: pool.TensorBatch, progress: pool.Progress) -> Tensor:  # noqa: ARG002
        return nn.functional.mse_loss(model(batch), batch.dense["target"])


class FromSet(Plain):
    """Layers in the order of a set of texts, each with a factor of its own."""

    def build_model(self) -> nn.Module:
        net = Net()
        net.heads = nn.ModuleDict({name: nn.Linear(8, 8) for name in set(NAMES)})
        net.middle = lambda x: sum(i * torch.tanh(net.heads[name](x)) for i, name in enumerate(NAMES))
        return net


class Everywhere(FromSet):
    """Draws from all generators, wherever code of a task runs."""

    def __init__(self) -> None:
        self.drawn = torch.rand(3), random.random(), np.random.rand(2), AT_IMPORT

    def build_model(self) -> nn.Module:
        net: Any = super().build_model()
        order = torch.randperm(8).tolist()
        random.shuffle(order)
        shift = torch.from_numpy(np.random.rand(8).astype(np.float32))
        middle: Any = net.middle
        net.middle = lambda x: middle(x[:, order] + shift)
        return cast(nn.Module, net)

    def initialize(self, model: nn.Module) -> None:
        for parameter in model.parameters():
            parameter.mul_(0.9 + 0.2 * _drawn())

    def loss(self, model: nn.Module, batch: pool.TensorBatch, progress: pool.Progress) -> Tensor:
        tensor, python, array, (first, second) = self.drawn
        factor = _drawn() * (tensor.sum() + python + array.sum() + first + second)
        scaled: Tensor = 0.1 * factor * super().loss(model, batch, progress)
        return scaled

    def after_step(self, model: nn.Module) -> None:
        for parameter in model.parameters():
            parameter.mul_(1 - 1e-3 * _drawn())


def _drawn() -> Tensor:
    return (torch.rand(()) + random.random() + np.random.rand()) / 3


class Attribute(Plain):
    def build_model(self) -> nn.Module:
        net = Net()
        net.temperature = torch.tensor(2.0)
        return net


class Constants(Plain):
    """In the model's attribute, in a list of the task, in a function's closure, and as numbers read from tensors."""

    def __init__(self) -> None:
        self.weights = [torch.tensor([1.0, 3.0])]

    def build_model(self) -> nn.Module:
        order, slope, scale = torch.randperm(8).tolist(), torch.rand(()).item(), torch.linspace(0.5, 1.5, 8)
        net: Any = Net(lambda x: nn.functional.leaky_relu(x[:, order], slope) * scale / net.temperature)
        net.temperature = torch.tensor(2.0)
        return cast(nn.Module, net)

    def loss(self, model: nn.Module, batch: pool.TensorBatch, progress: pool.Progress) -> Tensor:  # noqa: ARG002
        target = batch.dense["target"]
        loss: Tensor = ((model(batch) - target) ** 2 * self.weights[0][(target > 0).long()]).mean()
        return loss


class Criterion(Plain):
    def __init__(self) -> None:
        self.criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0))

    def loss(self, model: nn.Module, batch: pool.TensorBatch, progress: pool.Progress) -> Tensor:  # noqa: ARG002
        loss: Tensor = self.criterion(model(batch), (batch.dense["target"] > 0).float())
        return loss


class Orthogonal(Plain):
    def build_model(self) -> nn.Module:
        net = Net()
        nn.utils.parametrizations.orthogonal(net.mid)
        return net


class OtherShapes(Plain):
    """Another model in each process."""

    def build_model(self) -> nn.Module:
        net = Net()
        net.odd = nn.Linear(os.getpid(), 1, bias=False)
        return net


class OtherNames(Plain):
    def build_model(self) -> nn.Module:
        net = Net()
        net.add_module(f"layer{os.getpid()}", nn.Linear(8, 8))
        return net


class OtherNumbers(Plain):
    """Constants that no seed decides."""

    def build_model(self) -> nn.Module:
        noise = torch.from_numpy(np.random.default_rng().random(8).astype(np.float32))
        return Net(lambda x: torch.relu(x + noise))


CONSTANTS = ("Constants", "Criterion", "Orthogonal")
