"""Schedules made of parts: the rates of torch's own composition, saved and gone on with, tried to the last step."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.optim import lr_scheduler

from pool.checkpoint.overrides import Override, allowed
from pool.config.load import parse_config
from pool.errors import CheckpointError, ConfigError
from pool.exchange.plan import TensorSpec, build_plan
from pool.optim.buckets import BucketOptimizers
from pool.planner import trial
from tests.support.runs import TOY, run, run_well
from tests.support.schedules import in_parts, rates

WARMUP = {"name": "LinearLR", "args": {"start_factor": 0.1, "total_iters": 4}, "steps": 4}
COSINE = {"name": "CosineAnnealingLR", "args": {"T_max": 8}}
KEPT = {"name": None, "steps": 3}
STEPPED = {"name": "MultiStepLR", "args": {"milestones": [1, 3], "gamma": 0.5}, "steps": 5}
CYCLE = {"name": "OneCycleLR", "args": {"max_lr": 2.0, "total_steps": 40}}
CHAIN = (KEPT, WARMUP, STEPPED, CYCLE)


def test_warmup_then_cosine_has_the_rates_of_torchs_own_composition() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's composition uses what torch has deprecated
        schedulers = [
            lr_scheduler.LinearLR(optimizer, 0.1, total_iters=4),
            lr_scheduler.CosineAnnealingLR(optimizer, 8),
        ]
        composed = lr_scheduler.SequentialLR(optimizer, schedulers, [4])
        expected = []
        for _ in range(12):
            expected.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            composed.step()
    assert rates(in_parts(WARMUP, COSINE), 0, 12) == pytest.approx(expected)


def test_each_part_begins_with_the_rate_of_the_optimizer_and_one_without_a_name_keeps_it() -> None:
    found = rates(in_parts(*CHAIN), 0, 12)
    assert found[:3] == [1.0, 1.0, 1.0]
    assert found[3:7] == pytest.approx([0.1, 0.325, 0.55, 0.775])
    assert found[7:12] == [1.0, 0.5, 0.5, 0.25, 0.25]


@settings(max_examples=25, deadline=None)
@given(cut=st.integers(0, 20))
def test_it_goes_on_from_its_saved_state_at_any_step(cut: int) -> None:
    whole = rates(in_parts(*CHAIN), 0, 22)
    first, second = in_parts(*CHAIN), in_parts(*CHAIN)
    rates(first, 0, cut)
    tensors, plain = first.state()
    second.load_state(tensors, json.loads(json.dumps(plain)))
    assert json.dumps(second.state()[1]) == json.dumps(plain)
    assert rates(second, cut, 22) == whole[cut:]


def test_another_rate_on_resume_is_in_force_in_the_parts_to_come() -> None:
    whole = rates(in_parts(*CHAIN), 0, 16)
    optimizers = in_parts(*CHAIN)
    rates(optimizers, 0, 5)
    optimizers.override(Override(5, "optimizer.args.lr", 2 * whole[5]))
    assert rates(optimizers, 5, 12) == pytest.approx([2 * rate for rate in whole[5:12]])
    _, plain = optimizers.state()
    assert not [key for key in allowed(plain) if key.startswith("schedule.")]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"last_epoch": 1}, "its state has 1 schedulers"),
        ({"last_epoch": "x"}, "last_epoch of the schedule is 'x'"),
        ({"_schedulers": []}, "its state has 0 schedulers"),
        ({"_schedulers": 5}, "the schedule has"),
        ({"base_lrs": [1.0, 1.0]}, "base_lrs of the schedule has 2 entries"),
    ],
)
def test_a_state_that_can_not_be_its_own_is_refused(change: dict[str, Any], complaint: str) -> None:
    optimizers = in_parts(*CHAIN)
    rates(optimizers, 0, 5)
    tensors, plain = optimizers.state()
    (scheduler,) = plain["schedulers"]
    with pytest.raises(CheckpointError, match=complaint):
        in_parts(*CHAIN).load_state(tensors, {**plain, "schedulers": [{**scheduler, **change}]})


def plan_with(parts: list[dict[str, Any]], **train: Any) -> int:
    tree = {"task": "tests.support.toy", "schedule": {"parts": parts}, "train": train}
    config = parse_config(tree, "test")
    return trial.snapshot_nbytes(config, [build_plan([TensorSpec("w", (3,), "float32", 4)], [], [1])])


ODD = "tests.support.tasks.odd_models.EndingSchedule"  # fails at its 7th step
TORCHS = "torch.optim.lr_scheduler"
ONE_CYCLE = {"name": f"{TORCHS}.OneCycleLR", "args": {"max_lr": 0.1, "total_steps": 600}}


@pytest.mark.parametrize(
    ("parts", "steps", "complaint"),
    [
        ([{"steps": 100}, {"name": ODD}], 200, f"schedule.parts.1.name: {ODD}: fails after step 107: LookupError"),
        ([{"name": ODD, "steps": 8}, {}], 200, f"schedule.parts.0.name: {ODD}: fails after step 7: LookupError"),
        ([{"steps": 50_000}, ONE_CYCLE], 50_602, "schedule.parts.1.name: .*fails after step 50601: ValueError"),
        ([{"steps": 9}, {"name": "StepLR"}], 5, "schedule.parts.1.name: 'StepLR' can't be loaded: .*did you mean"),
        ([{"steps": 9}, {"name": f"{TORCHS}.StepLR"}], 20, "schedule.parts.1.name.*step 9: .*schedule.parts.1.args"),
        ([{}, {}], 20, "schedule.parts.0.steps: is missing"),
        ([{"steps": 3}], 20, "schedule.parts.0.steps: the last part goes on to the end"),
        ([{"args": {"gamma": 1}}], 20, "schedule.parts.0.args: a part without a name"),
        ([{"steps": 0}, {}], 20, "schedule.parts.0.steps: input should be greater than 0"),
        ([{"length": 3}, {}], 20, "schedule.parts.0.length: unknown key"),
    ],
)
def test_what_can_not_be_used_is_one_line_before_the_run(parts: Any, steps: int, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as error:
        plan_with(parts, steps=steps)
    assert len(str(error.value).splitlines()) == 1


def test_what_lasts_as_long_as_the_run_can_be_used() -> None:
    assert plan_with([{"steps": 50_000}, ONE_CYCLE], steps=50_600) > 0
    assert plan_with([{"name": ODD, "steps": 7}, {"name": f"{TORCHS}.StepLR", "args": {"step_size": 1}}], steps=900) > 0


def test_parts_and_one_class_are_not_both_possible() -> None:
    with pytest.raises(ConfigError, match=r"schedule\.parts: a schedule is either parts, or one class"):
        parse_config({"schedule": {"name": "x.Y", "parts": [{}]}}, "test")


@pytest.mark.runs
def test_a_run_goes_on_in_the_middle_of_a_part_with_the_same_bits(tmp_path: Any) -> None:
    parts = [{"steps": 3}, *({**part, "name": f"{TORCHS}.{part['name']}"} for part in (WARMUP, COSINE))]
    given = {**TOY, "schedule.parts": parts}
    whole = run_well(tmp_path / "whole", given)
    assert run(tmp_path / "cut", {**given, "train.steps": 5}).code == 0
    assert run_well(tmp_path / "cut", given, "--resume").digest() == whole.digest()
    expected = [1.0, 1.0, 1.0, 0.1, 0.325, 0.55, 0.775, 1.0]
    assert [line["learning_rate"] for line in whole.metrics()[:8]] == pytest.approx([0.01 * x for x in expected])


def test_buckets_step_alike() -> None:
    plan = build_plan([TensorSpec(name, (3,), "float32", 4) for name in "ab"], [], [1])
    config = in_parts(*CHAIN)._schedule
    parameters = [nn.Parameter(torch.zeros(3)) for _ in "ab"]
    optimizers = BucketOptimizers(plan, parameters, parse_config({}, "test").optimizer, config)
    for step in range(9):
        for bucket in range(2):
            optimizers.step(bucket)
        optimizers.end_step(step)
    assert len({optimizer.param_groups[0]["lr"] for optimizer in optimizers._optimizers}) == 1
    assert len(optimizers.schedulers) == len(plan.buckets) == 2
