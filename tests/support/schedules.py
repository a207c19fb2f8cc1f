"""A parameter with an optimizer and a schedule, stepped as a run does, for tests of what schedules go on from."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from pool.buckets.plan import TensorSpec, make_plan
from pool.config.sections import OptimizerConfig, ScheduleConfig
from pool.optim.buckets import BucketOptimizers

PLAN = make_plan([TensorSpec("w", (3,), "float32", 4)], [], [1])


def scheduled(schedule: str | None, arguments: dict[str, Any]) -> BucketOptimizers:
    """SGD with a learning rate of 1.0; `schedule`: a class of torch.optim.lr_scheduler."""
    parameter = nn.Parameter(torch.zeros(3))
    parameter.grad = torch.ones(3)
    name = None if schedule is None else f"torch.optim.lr_scheduler.{schedule}"
    return BucketOptimizers(
        PLAN,
        [parameter],
        OptimizerConfig(name="torch.optim.SGD", args={"lr": 1.0, "momentum": 0.9}),
        ScheduleConfig(name=name, args=arguments),
    )


def rates(optimizers: BucketOptimizers, begin: int, end: int) -> list[float]:
    """The learning rate of each of these steps, which are done."""
    found = []
    for step in range(begin, end):
        found.append(optimizers.learning_rate)
        optimizers.step(0)
        optimizers.end_step(step)
    return found
