"""A user's module: tasks as classes and as an object, with settings and without."""

from __future__ import annotations

from torch import Tensor, nn

import pool
from loader import Section


class Mine(pool.Task):
    class ModelConfig(Section):
        width: int = 8

    def __init__(self, model: ModelConfig, loss: Section) -> None:  # noqa: ARG002
        self.width = model.width

    def build_model(self) -> nn.Module:
        return nn.Sequential(pool.SparseLinear(1000, self.width), nn.Linear(self.width, 1))

    def loss(self, model: nn.Module, batch: pool.TensorBatch, progress: pool.Progress) -> Tensor:  # noqa: ARG002
        output: Tensor = model[1](model[0](batch.sparse["features"]))  # type: ignore[index]
        return nn.functional.mse_loss(output.squeeze(1), batch.dense["target"])


class WithoutSettings(Mine):
    def __init__(self) -> None:
        self.width = 4


class Holder:
    class Inner(WithoutSettings):
        pass


made = WithoutSettings()


def local() -> type:
    class Local(WithoutSettings):
        pass

    return Local
