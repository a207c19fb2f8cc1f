"""`optimizer.groups`: tensors that are stepped with other arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest
import torch

from pool.checkpoint.overrides import Override
from pool.config.schedule import ScheduleConfig
from pool.config.sections import OptimizerConfig
from pool.errors import ConfigError
from pool.exchange.plan import Plan, TensorSpec, build_plan
from pool.optim.buckets import BucketOptimizers
from pool.optim.elementwise import ELEMENTWISE

SPECS = [
    TensorSpec(name, shape, "float32", 4) for name, shape in (("a.weight", (70, 3)), ("a.bias", (3,)), ("b", (5,)))
]
PLAN = build_plan(SPECS, [], [16, 300])
CYCLE: dict[str, Any] = {
    "name": "torch.optim.lr_scheduler.OneCycleLR",
    "args": {"max_lr": 0.1, "total_steps": 9, "cycle_momentum": False},
}


def optimizers(
    name: str,
    groups: list[dict[str, Any]],
    args: dict[str, Any] | None = None,
    plan: Plan = PLAN,
    schedule: Mapping[str, Any] | None = None,
) -> BucketOptimizers:
    generator = torch.Generator().manual_seed(1)
    parameters = [torch.nn.Parameter(torch.randn(spec.shape, generator=generator)) for spec in plan.parameters]
    config = OptimizerConfig.model_validate({"name": name, "args": args or {"lr": 0.1}, "groups": groups})
    return BucketOptimizers(plan, parameters, config, ScheduleConfig.model_validate(schedule or {}).resolve(9))


def train(made: BucketOptimizers, first: int = 0, last: int = 6) -> dict[str, list[float]]:
    """Weights after these steps, by name."""
    for step in range(first, last):
        generator = torch.Generator().manual_seed(step)
        for bucket, members in enumerate(made.parameters):
            for parameter in members:
                parameter.grad = torch.randn(parameter.shape, generator=generator)
            made.step(bucket)
        made.end_step(step)
    order = chain.from_iterable(bucket.parameters for bucket in PLAN.buckets)
    stepped = zip(order, chain.from_iterable(made.parameters), strict=True)
    return {PLAN.parameters[index].name: parameter.flatten().tolist() for index, parameter in stepped}


@pytest.mark.parametrize("name", sorted(ELEMENTWISE))
def test_groups_that_are_all_equal_have_the_bits_of_none(name: str) -> None:
    rate = {"lr": 0.1}
    groups = [{"tensors": ["*.bias"], "args": rate}, {"tensors": ["b", "a.*"], "args": {}}]
    assert len(PLAN.buckets) > 1
    assert train(optimizers(name, groups)) == train(optimizers(name, []))


@pytest.mark.parametrize("name", ["pool.optim.Adam", "torch.optim.AdamW"])
def test_each_tensor_is_stepped_with_the_arguments_of_the_first_group_that_matches(name: str) -> None:
    groups = [
        {"tensors": ["a.bi?s"], "args": {"lr": 0.05, "betas": [0.5, 0.9]}},
        {"tensors": ["a.*"], "args": {"weight_decay": 0.3}},
    ]
    found = train(optimizers(name, groups, schedule=CYCLE))
    alone: dict[str, dict[str, Any]] = {
        "a.bias": {"lr": 0.05, "betas": [0.5, 0.9]},
        "a.weight": {"lr": 0.1, "weight_decay": 0.3},
        "b": {"lr": 0.1},
    }
    for tensor, args in alone.items():
        schedule = {**CYCLE, "args": {**CYCLE["args"], "max_lr": args["lr"]}}
        assert found[tensor] == pytest.approx(train(optimizers(name, [], args, schedule=schedule))[tensor], rel=1e-6), (
            tensor
        )


@pytest.mark.parametrize("name", ["pool.optim.Adam", "torch.optim.SGD"])
def test_a_saved_state_and_rates_that_are_changed_keep_the_groups_shares(name: str) -> None:
    groups = [{"tensors": ["b"], "args": {"lr": 0.01, "weight_decay": 0.5}}]
    straight = optimizers(name, groups, schedule=CYCLE)
    train(straight, 0, 3)
    tensors, plain = straight.state()
    resumed = optimizers(name, groups, {"lr": 0.7}, schedule=CYCLE)  # the config's rate is not in force any more
    for own, other in zip(chain(*resumed.parameters), chain(*straight.parameters), strict=True):
        own.data.copy_(other.data)
    resumed.load_state({key: tensor.clone() for key, tensor in tensors.items()}, json.loads(json.dumps(plain)))
    for each in (straight, resumed):
        each.set_rates(lambda rate: rate / 2)
        each.override(Override(3, "optimizer.args.weight_decay", 0.25))
        assert [group["weight_decay"] for group in each.of(0).param_groups] == [0.25, 0.5]
    assert train(straight, 3) == train(resumed, 3)


def test_a_pattern_that_matches_nothing_is_refused_with_the_names_there_are() -> None:
    plan = replace(PLAN, parameters=tuple(replace(each, name=f"member.1.{each.name}") for each in PLAN.parameters))
    optimizers("pool.optim.Adam", [{"tensors": ["a.bias"]}], plan=plan)
    with pytest.raises(
        ConfigError, match=r"optimizer.groups.1.tensors: 'c\*' matches no tensor; .* a.weight, a.bias, b"
    ):
        optimizers("pool.optim.Adam", [{"tensors": ["b"]}, {"tensors": ["a.*", "c*"]}], plan=plan)


def test_a_group_that_others_leave_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"groups.1.tensors: all that b matches is in groups before it: put"):
        optimizers("pool.optim.Adam", [{"tensors": ["*"]}, {"tensors": ["b"]}])


@pytest.mark.parametrize(
    ("args", "problem"),
    [({"beta": 1}, "optimizer.groups.0.args: .*beta"), ({"lr": -1.0}, "optimizer.groups.0.args: .*-1")],
)
def test_arguments_are_checked_as_those_of_the_optimizer_are(args: dict[str, Any], problem: str) -> None:
    for name in ("pool.optim.Adam", "torch.optim.Adam"):
        with pytest.raises(ConfigError, match=problem):
            optimizers(name, [{"tensors": ["b"], "args": args}])


def test_an_optimizer_with_train_and_eval_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"optimizer.name: tests.*Switching: validates and saves other weights"):
        optimizers(f"{__name__}.Switching", [])


class Switching(torch.optim.SGD):
    """Has the interface of schedulefree's optimizers."""

    def train(self) -> None:
        raise AssertionError

    def eval(self) -> None:
        raise AssertionError


def test_a_rate_of_a_group_is_a_share_of_one_that_is_not_0() -> None:
    with pytest.raises(ConfigError, match=r"optimizer.groups.0.args.lr: is a share of optimizer.args.lr, which is 0"):
        optimizers("pool.optim.Adam", [{"tensors": ["b"], "args": {"lr": 0.1}}], {"lr": 0.0})
