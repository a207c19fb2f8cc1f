"""Optimizer and schedule per bucket: their state survives JSON and goes on as if nothing had happened (I9)."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import nn

from pool.checkpoint.overrides import Override
from pool.config.load import parse_config
from pool.config.schedule import ScheduleConfig
from pool.config.sections import OptimizerConfig
from pool.errors import CheckpointError
from pool.exchange.plan import Plan, TensorSpec, build_plan
from pool.exchange.tensors import bucket_rows
from pool.kernels.reduction import Addend
from pool.optim.buckets import BucketOptimizers
from pool.optim.elementwise import ELEMENTWISE
from pool.optim.native import NativeOptimizer
from pool.planner.trial import snapshot_nbytes
from tests.support.schedules import rates, scheduled


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
    whole = rates(scheduled(scheduler, arguments), 0, 10)
    first = scheduled(scheduler, arguments)
    rates(first, 0, 4)
    tensors, plain = first.state()
    second = scheduled(scheduler, arguments)
    second.load_state(tensors, json.loads(json.dumps(plain)))
    assert rates(second, 4, 10) == whole[4:]
    assert len(set(whole)) > 1


TABLE, BIAS = (200, 24), (24,)
SPECS = [TensorSpec("table", TABLE, "float32", 4, "features"), TensorSpec("bias", BIAS, "float32", 4)]
LIMITS = [64, 4800]  # a table of 19,200 bytes is cut in five


def train(plan: Plan, name: str, steps: int, optimizers: BucketOptimizers | None = None) -> Any:
    """Steps a table and a bias along a fixed course; returns the optimizers and the weights."""
    torch.manual_seed(0)
    parameters = [nn.Parameter(torch.randn(shape)) for shape in (TABLE, BIAS)]
    made = BucketOptimizers(
        plan, parameters, OptimizerConfig(name=name, args={"lr": 0.1}), ScheduleConfig(args={}).resolve(10)
    )
    if optimizers is not None:
        tensors, plain = optimizers.state()
        made.load_state({key: tensor.clone() for key, tensor in tensors.items()}, json.loads(json.dumps(plain)))
    for _ in range(steps):
        gradients = [torch.randn(shape) for shape in (TABLE, BIAS)]
        for b, bucket in enumerate(plan.buckets):
            parts = [bucket_rows(gradients[index], bucket) for index in bucket.parameters]
            of_parts = list(zip(made.parameters[b], parts, strict=True))
            optimizer = made.of(b)
            if isinstance(optimizer, NativeOptimizer) and optimizer.needs_global_norm:
                optimizer.set_global_norm(1.0, 4824)
                with made.stepping(b):
                    for parameter, part in of_parts:
                        optimizer.reduce_and_step(parameter, parameter.data, [Addend(0, part, None)])
                continue
            for parameter, part in of_parts:
                parameter.grad = part
            made.step(b)
    return made, parameters


@pytest.mark.parametrize("name", sorted(ELEMENTWISE))
def test_a_table_stepped_in_parts_has_the_bits_of_the_whole(name: str) -> None:
    whole, parts = build_plan(SPECS, [], LIMITS), build_plan(SPECS, [], LIMITS, split_tables=True)
    assert [bucket.rows for bucket in whole.buckets] == [None, None]
    assert [bucket.rows for bucket in parts.buckets] == [None, (0, 48), (48, 96), (96, 144), (144, 192), (192, 200)]
    results = [train(plan, name, 5) for plan in (whole, parts)]
    for a, b in zip(results[0][1], results[1][1], strict=True):
        assert torch.equal(a, b)
    states = [optimizers.state()[0] for optimizers, _ in results]
    assert states[0].keys() == states[1].keys()
    for key, tensor in states[0].items():
        assert torch.equal(tensor, states[1][key]), key


@pytest.mark.parametrize(
    "name",
    [
        "pool.optim.Adam",
        "pool.optim.ClippedAdamW",
        "pool.optim.RowwiseAdagrad",
        "pool.optim.FTRL",
        "pool.optim.RangerLite",
        "torch.optim.Adam",
        "torch.optim.SGD",
    ],
)
def test_a_table_in_parts_goes_on_from_its_saved_state_as_the_whole_does(name: str) -> None:
    results = []
    for split in (False, True):
        plan = build_plan(SPECS, [], LIMITS, split_tables=split)
        first, _ = train(plan, name, 3)
        second, weights = train(plan, name, 4, first)
        results.append(weights)
        tensors, _ = second.state()
        if "table/step" in tensors:
            assert float(tensors["table/step"]) == 7
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


def test_state_of_other_buckets_is_refused_with_what_to_set() -> None:
    first, _ = train(build_plan(SPECS, [], LIMITS, split_tables=True), "torch.optim.Adam", 1)
    with pytest.raises(CheckpointError, match=r"is of 6 buckets, and the config makes 2: set pool\.first_bucket_mb"):
        train(build_plan(SPECS, [], LIMITS), "torch.optim.Adam", 1, first)


def test_state_of_another_optimizer_is_refused_before_the_first_step() -> None:
    plan = build_plan(SPECS, [], LIMITS)
    first, _ = train(plan, "torch.optim.Adam", 1)
    with pytest.raises(CheckpointError, match="does not fit optimizer and schedule of the config: it has no dampening"):
        train(plan, "torch.optim.SGD", 1, first)


def test_row_wise_state_has_a_number_for_each_row_of_a_table_and_room_for_it_is_planned() -> None:
    whole, parts = build_plan(SPECS, [], LIMITS), build_plan(SPECS, [], LIMITS, split_tables=True)
    config = parse_config({"task": "tests.support.toy", "optimizer": {"name": "pool.optim.RowwiseAdagrad"}}, "test")
    for plan in (whole, parts):
        optimizers, parameters = train(plan, "pool.optim.RowwiseAdagrad", 2)
        tensors, _ = optimizers.state()
        assert tensors["table/sum"].shape == (200, 1)
        assert tensors["bias/sum"].shape == BIAS
        used = sum(tensor.nbytes for tensor in (*parameters, *tensors.values()))
        assert used < snapshot_nbytes(config, [plan]) < used + (32 << 10)


def test_numbers_of_our_optimizers_can_be_overridden() -> None:
    plan = build_plan(SPECS, [], LIMITS, split_tables=True)
    for name, key in (("FTRL", "l1"), ("RowwiseAdagrad", "eps"), ("SparseAdam", "weight_decay")):
        optimizers, _ = train(plan, f"pool.optim.{name}", 1)
        optimizers.override(Override(1, f"optimizer.args.{key}", 0.125))
        assert all(optimizers.of(b).param_groups[0][key] == 0.125 for b in range(len(plan.buckets)))
