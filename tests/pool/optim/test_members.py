"""The optimizer state of all members as one, as checkpoints hold it: joined, and taken apart again."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import nn

from loader.stream.schema import BatchSchema
from pool.config.load import parse_config
from pool.config.tree import Config
from pool.errors import CheckpointError
from pool.exchange.layout import Layout, join_plans, list_bucket_members, member_prefix
from pool.exchange.plan import Plan, TensorSpec, build_plan
from pool.optim.buckets import BucketOptimizers
from pool.optim.joined_state import State, join_states, split_state

STEP_LR = {"name": "torch.optim.lr_scheduler.StepLR", "args": {"step_size": 1}}
MEMBERS = [
    {"optimizer": {"name": "torch.optim.Adam"}},
    {"optimizer": {"name": "torch.optim.SGD", "args": {"momentum": 0.5}}, "schedule": STEP_LR},
    {"optimizer": {"name": "pool.optim.Adam"}, "schedule": STEP_LR},
]


def plan_of(member: int, *, split: bool = False) -> Plan:
    names = [f"{member_prefix(member, len(MEMBERS))}{name}" for name in ("table", "bias")]
    table, bias = TensorSpec(names[0], (64, 4), "float32", 4, "features"), TensorSpec(names[1], (4,), "float32", 4)
    return build_plan(
        [table, bias], [TensorSpec(f"{names[1]}.mean", (2,), "float32", 4)], [16, 512], split_tables=split
    )


PLANS = [plan_of(0), plan_of(1), plan_of(2, split=True)]


def configs() -> list[Config]:
    tree = {"optimizer": {"args": {"lr": 0.1}}, "ensemble": {"member": MEMBERS}}
    return list(parse_config(tree, "test").members)


def made(config: Config, plan: Plan) -> BucketOptimizers:
    parameters = [nn.Parameter(torch.ones(tensor.shape)) for tensor in plan.parameters]
    return BucketOptimizers(plan, parameters, config.optimizer, config.run_schedule)


def stepped(config: Config, plan: Plan) -> BucketOptimizers:
    optimizers = made(config, plan)
    for bucket, parameters in enumerate(optimizers.parameters):
        for parameter in parameters:
            parameter.grad = torch.full_like(parameter, 0.5)
        optimizers.step(bucket)
    optimizers.end_step(0)
    return optimizers


def restored(tensors: Mapping[str, torch.Tensor], plain: Mapping[str, Any]) -> list[State]:
    """Of each member, from the state of all."""
    found: list[State] = []
    for own, config, plan in zip(split_state(configs(), PLANS, (tensors, plain)), configs(), PLANS, strict=True):
        optimizers = made(config, plan)
        optimizers.load_state(*own)
        found.append(optimizers.state())
    return found


def test_parts_lie_one_after_the_other_and_keep_their_borders() -> None:
    whole = join_plans(PLANS)
    assert list_bucket_members(PLANS) == tuple(m for m, plan in enumerate(PLANS) for _ in plan.buckets)
    assert join_plans(PLANS[:1]) is PLANS[0]
    buckets = iter(whole.buckets)
    for part, plan in zip(Layout(BatchSchema(8, (), ()), tuple(PLANS)).member_layouts, PLANS, strict=True):
        for own, bucket in zip(plan.buckets, buckets, strict=False):
            assert (bucket.offset - part.offset, bucket.nbytes, bucket.rows) == (own.offset, own.nbytes, own.rows)
            assert bucket.parameters == tuple(part.first_parameter + index for index in own.parameters)
    ends = [(tensor.offset, tensor.offset + tensor.nbytes) for tensor in (*whole.parameters, *whole.buffers)]
    ends.sort()
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(ends))
    assert ends[-1][1] <= whole.nbytes


def test_what_is_joined_is_taken_apart_again() -> None:
    states = [stepped(*each).state() for each in zip(configs(), PLANS, strict=True)]
    tensors, plain = join_states(states)
    for found, expected in zip(restored(tensors, plain), states, strict=True):
        assert found[1] == expected[1]
        assert found[0].keys() == expected[0].keys()
        assert all(torch.equal(found[0][name], expected[0][name]) for name in expected[0])


@pytest.mark.parametrize("name", ["member.3.bias", "bias", "member.0.other"])
def test_what_belongs_to_no_member_is_refused(name: str) -> None:
    tensors, plain = join_states([stepped(*each).state() for each in zip(configs(), PLANS, strict=True)])
    plain = {**plain, "numbers": {**plain["numbers"], name: {}}}
    with pytest.raises(CheckpointError, match="which is no parameter"):
        restored(tensors, plain)


def test_groups_of_too_few_buckets_are_refused() -> None:
    tensors, plain = join_states([stepped(*each).state() for each in zip(configs(), PLANS, strict=True)])
    plain = {**plain, "groups": plain["groups"][:-1]}
    with pytest.raises(CheckpointError, match="optimizer state is of"):
        restored(tensors, plain)
