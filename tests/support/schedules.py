"""A parameter with an optimizer and a schedule, stepped as a run does, for tests of what schedules go on from."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from pool.config.load import parse_config
from pool.config.schedule import ScheduleConfig
from pool.config.sections import OptimizerConfig
from pool.exchange.plan import TensorSpec, build_plan
from pool.optim.buckets import BucketOptimizers

_SGD = OptimizerConfig(name="torch.optim.SGD", args={"lr": 1.0, "momentum": 0.9})
PLAN = build_plan([TensorSpec("w", (3,), "float32", 4)], [], [1])


def scheduled(schedule: str | None, arguments: dict[str, Any]) -> BucketOptimizers:
    """SGD with a learning rate of 1.0; `schedule`: a class of torch.optim.lr_scheduler."""
    name = None if schedule is None else f"torch.optim.lr_scheduler.{schedule}"
    return BucketOptimizers(
        PLAN,
        [_parameter()],
        _SGD,
        ScheduleConfig(name=name, args=arguments).resolve(1000),
    )


def in_parts(*parts: dict[str, Any]) -> BucketOptimizers:
    """A schedule made of parts, each with the name of a class of torch, or None."""
    named = [{**part, "name": part["name"] and f"torch.optim.lr_scheduler.{part['name']}"} for part in parts]
    schedule = parse_config({"task": "tests.support.toy", "schedule": {"parts": named}}, "test").schedule
    return BucketOptimizers(PLAN, [_parameter()], _SGD, schedule.resolve(1000))


def _parameter() -> nn.Parameter:
    parameter = nn.Parameter(torch.zeros(3))
    parameter.grad = torch.ones(3)
    return parameter


def rates(optimizers: BucketOptimizers, begin: int, end: int) -> list[float]:
    """The learning rate of each of these steps, which are done."""
    rates = []
    for step in range(begin, end):
        rates.append(optimizers.learning_rate)
        optimizers.step(0)
        optimizers.end_step(step)
    return rates
