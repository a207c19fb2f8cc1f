"""Optimizer and schedule per bucket: their state survives JSON and goes on as if nothing had happened (I9)."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import nn

from pool.buckets.plan import TensorSpec, make_plan
from pool.config import OptimizerConfig, ScheduleConfig
from pool.optimizers import BucketOptimizers

PLAN = make_plan([TensorSpec("w", (3,), "float32", 4)], [], [1])


def make(scheduler: str, arguments: dict[str, Any]) -> BucketOptimizers:
    parameter = nn.Parameter(torch.zeros(3))
    parameter.grad = torch.ones(3)
    return BucketOptimizers(
        PLAN,
        [parameter],
        OptimizerConfig(name="torch.optim.SGD", args={"lr": 1.0}),
        ScheduleConfig(name=f"torch.optim.lr_scheduler.{scheduler}", args=arguments),
    )


def rates(optimizers: BucketOptimizers, begin: int, end: int) -> list[float]:
    found = []
    for step in range(begin, end):
        found.append(optimizers.learning_rate)
        optimizers.step(0)
        optimizers.end_step(step)
    return found


@pytest.mark.parametrize(
    ("scheduler", "arguments"),
    [
        ("MultiStepLR", {"milestones": [2, 5], "gamma": 0.5}),
        ("OneCycleLR", {"max_lr": 1.0, "total_steps": 20}),
        ("CosineAnnealingWarmRestarts", {"T_0": 3}),
        ("StepLR", {"step_size": 3}),
    ],
)
def test_a_schedule_goes_on_from_its_saved_state(scheduler: str, arguments: dict[str, Any]) -> None:
    whole = rates(make(scheduler, arguments), 0, 10)
    first = make(scheduler, arguments)
    rates(first, 0, 4)
    tensors, plain = first.state()
    second = make(scheduler, arguments)
    second.load_state(tensors, json.loads(json.dumps(plain)))
    assert rates(second, 4, 10) == whole[4:]
    assert len(set(whole)) > 1
