"""When validations reduce the learning rate: as torch's own class does, on top of any schedule."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from pool.checkpoint.plateau import Plateau, ReduceOnPlateau
from pool.checkpoint.validations import Goal, Validation
from pool.config.load import parse_config
from pool.errors import ConfigError
from pool.metrics.layout import NOTHING
from pool.optim.plateau import plateau_rule
from pool.supervisor.prepare.preflight import check_validation
from tests.pool.optim.test_schedule_parts import COSINE, KEPT, WARMUP, plan_with
from tests.support.schedules import in_parts, rates, scheduled

RULE = ReduceOnPlateau(Goal(), patience=1, factor=0.5, min_lr=0.0, threshold=0.0, cooldown=0)


def reductions(rule: ReduceOnPlateau, values: list[float]) -> list[int]:
    """Which of the validations reduce the rate."""
    known, found = Plateau(), []
    for number, value in enumerate(values):
        known, due = rule.update(known, Validation(number, value, {"auc": -value}))
        found += [number] * due
    return found


@pytest.mark.parametrize(
    ("changes", "values", "expected"),
    [
        ({}, [3.0, 2.0, 1.0], []),
        ({}, [3.0, 3.0, 3.0, 3.0, 3.0], [2, 4]),
        ({"patience": 0}, [3.0, 3.0, 2.0, 4.0], [1, 3]),
        ({}, [3.0, 4.0, 2.0, 4.0, 2.0], [4]),
        ({}, [3.0, math.nan, math.inf, -math.inf], [2]),
        ({}, [math.nan, math.nan, 1.0, 2.0], [1]),
        ({"threshold": 0.1}, [1.0, 0.95, 0.91], [2]),
        ({"threshold": 0.1}, [-1.0, -1.05, -1.09], [2]),
        ({"cooldown": 2}, [1.0] * 8, [2, 6]),
        ({"goal": Goal("auc", "max")}, [3.0, 3.0, 3.0, 2.0], [2]),
        ({"goal": Goal("gone", "max")}, [3.0, 2.0, 1.0], [1]),
    ],
    ids=[
        "better each time", "again and again", "no patience", "counted anew after a better one", "not finite",
        "the first that is finite", "better by too little", "below zero", "cooldown", "higher is better",
        "not measured",
    ],
)  # fmt: skip
def test_validations_that_are_no_better_reduce_the_rate(
    changes: dict[str, Any], values: list[float], expected: list[int]
) -> None:
    assert reductions(replace(RULE, **changes), values) == expected


@settings(deadline=None)
@given(
    values=st.lists(st.floats(0.1, 10) | st.just(math.nan), max_size=40),
    patience=st.integers(0, 3),
    cooldown=st.integers(0, 3),
    threshold=st.sampled_from([0.0, 1e-4, 0.3]),
    best=st.sampled_from(["min", "max"]),
)
def test_as_torchs_own_class(values: list[float], patience: int, cooldown: int, threshold: float, best: Any) -> None:
    rule = ReduceOnPlateau(Goal("loss", best), patience, 0.5, 0.01, threshold, cooldown)
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, mode=best, factor=0.5, patience=patience, threshold=threshold, cooldown=cooldown, min_lr=0.01, eps=0
    )
    known, rate = Plateau(), 1.0
    for number, value in enumerate(values):
        known, due = rule.update(known, Validation(number, value))
        rate = rule.reduce(rate) if due else rate
        scheduler.step(value)
        assert rate == optimizer.param_groups[0]["lr"]


def test_another_metric_forgets_what_was_known() -> None:
    known, _ = RULE.update(Plateau(), Validation(0, 1.0))
    other = replace(RULE, goal=Goal("auc", "max"))
    assert other.update(known, Validation(1, 1.0, {"auc": 0.1}))[0] == Plateau("auc", 0.1, 0, 0)


@pytest.mark.parametrize(("rate", "expected"), [(1.0, 0.5), (0.3, 0.2), (0.2, 0.2), (0.05, 0.05), (0.0, 0.0)])
def test_no_rate_is_reduced_below_the_lowest(rate: float, expected: float) -> None:
    assert replace(RULE, min_lr=0.2).reduce(rate) == expected


@pytest.mark.parametrize(
    "make",
    [lambda: scheduled(None, {}), lambda: scheduled("OneCycleLR", {"max_lr": 1.0, "total_steps": 30}),
     lambda: in_parts(KEPT, WARMUP, COSINE)],
    ids=["no schedule", "closed form", "parts"],
)  # fmt: skip
def test_every_schedule_goes_on_in_proportion_also_from_a_saved_state(make: Any) -> None:
    whole = rates(make(), 0, 14)
    optimizers = make()
    assert rates(optimizers, 0, 5) == whole[:5]
    optimizers.set_rates(RULE.reduce)
    tensors, plain = optimizers.state()
    successor = make()
    successor.load_state(tensors, json.loads(json.dumps(plain)))
    expected = [rate / 2 for rate in whole[5:14]]
    assert rates(successor, 5, 14) == pytest.approx(expected, abs=1e-12)


def test_parameter_groups_keep_their_proportion() -> None:
    optimizers = scheduled("StepLR", {"step_size": 100})
    optimizers.of(0).add_param_group({"params": [nn.Parameter(torch.zeros(1))], "lr": 0.25, "initial_lr": 0.25})
    optimizers.schedulers[0].base_lrs.append(0.25)
    optimizers.set_rates(RULE.reduce)
    assert [group["lr"] for group in optimizers.of(0).param_groups] == [0.5, 0.125]


def config(**schedule: Any) -> Any:
    return parse_config({"task": "tests.support.toy", "schedule": schedule}, "test")


def test_a_config_without_patience_reduces_nothing_and_says_so_if_other_keys_are_set() -> None:
    assert plateau_rule(config(), NOTHING) is None
    with pytest.raises(ConfigError, match=r"plateau\.factor: does nothing without schedule\.plateau\.patience"):
        config(plateau={"factor": 0.5})


def test_what_can_not_work_is_one_line_before_the_run() -> None:
    reducing = config(plateau={"patience": 3})
    with pytest.raises(ConfigError, match=r"schedule\.plateau\.patience: 3, but there are no validations"):
        check_validation(reducing)
    with pytest.raises(ConfigError, match=r"schedule\.plateau\.metric: 'auc' is not measured; allowed: loss"):
        plateau_rule(config(plateau={"patience": 3, "metric": "auc"}), NOTHING)
    with pytest.raises(ConfigError, match=r"schedule\.parts\.1\.name: .*set schedule\.plateau\.patience"):
        plan_with([{"steps": 3}, {"name": "torch.optim.lr_scheduler.ReduceLROnPlateau"}], steps=10)
