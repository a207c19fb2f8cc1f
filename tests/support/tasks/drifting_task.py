"""The toy task, whose weights are others on a machine that has DRIFTS in its environment: as after a flipped bit."""

from __future__ import annotations

import os

import torch
from torch import nn

from tests.support.toy import LossConfig, ModelConfig
from tests.support.toy_model import ToyTask

__all__ = ["LossConfig", "ModelConfig", "create_task"]


class Drifting(ToyTask):
    _steps = 0

    def after_step(self, model: nn.Module) -> None:
        self._steps += 1
        if os.environ.get("DRIFTS") and self._steps == 3:
            with torch.no_grad():
                next(model.parameters()).view(-1)[0] += 1e-3


def create_task(model: ModelConfig, loss: LossConfig) -> Drifting:
    return Drifting(model, loss)
