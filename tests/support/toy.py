"""A small task without chess: a regression on synthetic data, quick enough for tests of the runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loader.section import Section

if TYPE_CHECKING:
    from pool.task.task import Task


class ModelConfig(Section):
    num_features: int = 1000
    hidden: int = 16
    batch_norm: bool = False
    dropout: float = 0.0
    gain: bool = False  # a parameter that is one number
    deadly_batch: int = -1  # whoever computes this batch dies
    unused_every: int = 0  # the extra layer gets a gradient only from batches whose number this divides; 0: from all


class LossConfig(Section):
    scale: float = 1.0
    infinite_gradient_of_batch: int = -1


def create_task(model: ModelConfig, loss: LossConfig) -> Task:
    from tests.support.toy_model import ToyTask

    return ToyTask(model, loss)
