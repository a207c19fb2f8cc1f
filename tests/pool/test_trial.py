"""Optimizer and schedule are tried out before a run begins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pool.buckets.plan import Plan, TensorSpec, make_plan
from pool.checkpoint import snapshot
from pool.checkpoint.store import tensor_bytes
from pool.config import parse_config
from pool.errors import ConfigError
from pool.optim.buckets import BucketOptimizers
from pool.planner.trial import state_nbytes
from pool.protocol.messages import CursorState

SHAPES = {"table.weight": (1000, 32), "bias": (32,), "scale": (1,), "deep.weight": (7, 300)}


def plan() -> Plan:
    return make_plan([TensorSpec(name, shape, "float32", 4) for name, shape in SHAPES.items()], [], [1000, 100_000])


def config(tree: dict[str, Any]) -> Any:
    return parse_config({"task": "tests.support.toy", **tree}, "test")


@pytest.mark.parametrize(
    "optimizer",
    [
        {"name": "torch.optim.Adam", "args": {"fused": True}},
        {"name": "torch.optim.SGD", "args": {"lr": 0.1}},
        {"name": "torch.optim.SGD", "args": {"lr": 0.1, "momentum": 0.9}},
        {"name": "torch.optim.Adagrad"},
        {"name": "torch.optim.NAdam"},
        {"name": "torch.optim.Adafactor"},
        {"name": "pytorch_optimizer.Ranger21", "args": {"num_iterations": 100}},
    ],
    ids=lambda optimizer: optimizer["name"],
)
def test_the_reserved_room_holds_the_real_state_and_not_much_more(optimizer: dict[str, Any]) -> None:
    settings = config({"optimizer": optimizer})
    reserved = state_nbytes(settings, plan())
    parameters = [nn.Parameter(torch.zeros(shape)) for shape in SHAPES.values()]
    optimizers = BucketOptimizers(plan(), parameters, settings.optimizer, settings.schedule)
    for _ in range(3):
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        for bucket in range(len(plan().buckets)):
            optimizers.step(bucket)
        optimizers.end_step(0)
    tensors, plain = optimizers.state()
    weights = dict(zip(SHAPES, parameters, strict=True))
    kinds = {"weights": tensor_bytes(weights), "optimizer": tensor_bytes(tensors)}
    snapshot.write(np.zeros(reserved, np.uint8), 3, CursorState(1 << 40, 9, 9, 9), plain, kinds)
    used = sum(tensor.data.nbytes for kind in kinds.values() for tensor in kind)
    assert reserved < 1.1 * used + (32 << 10) or optimizer["name"] == "torch.optim.Adafactor"


@pytest.mark.parametrize(
    ("tree", "complaint"),
    [
        ({"optimizer": {"name": "torch.optim.LBFGS"}}, "optimizer.name: torch.optim.LBFGS"),
        ({"optimizer": {"name": "torch.optim.SparseAdam"}}, "optimizer.name: torch.optim.SparseAdam: can't be used"),
        (
            {"schedule": {"name": "torch.optim.lr_scheduler.ReduceLROnPlateau"}},
            "schedule.name: torch.optim.lr_scheduler.ReduceLROnPlateau: fails after step 1: TypeError",
        ),
        ({"schedule": {"name": "torch.optim.lr_scheduler.LambdaLR", "args": {"lr_lambda": 3}}}, "schedule"),
    ],
    ids=["needs a closure", "needs sparse gradients", "needs a metric", "needs a function"],
)
def test_what_cannot_be_used_is_said_before_the_run(tree: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError) as error:
        state_nbytes(config(tree), plan())
    assert complaint in str(error.value)
    assert len(str(error.value).splitlines()) == 1
