"""Schedules in shares of train.steps: the same as in steps, in a run of any length; followed when a resume changes it;
the rates that a user is told before the run."""

from __future__ import annotations

import json
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pool.checkpoint.overrides import Override
from pool.config import bundle
from pool.config.load import parse_config
from pool.config.schedule import ScheduleConfig
from pool.config.tree import Config
from pool.errors import ConfigError
from pool.exchange.plan import TensorSpec, build_plan
from pool.optim.buckets import BucketOptimizers
from pool.planner.rates import summarize_rates
from pool.planner.trial import single_bucket_optimizer
from pool.stages.recipe import is_recipe
from tests.support.runs import TOY, check, run_well
from tests.support.schedules import rates

TORCHS = "torch.optim.lr_scheduler"
PLAN = build_plan([TensorSpec("w", (3,), "float32", 4)], [], [1])
IN_STEPS: dict[str, dict[str, Any]] = {  # what the bundled configs said before they had shares
    "clicks": {"every": 1, "args": {"T_max": 200}},
    "demo": {"every": 10, "args": {"gamma": 0.9}},
    "dual": {"every": 10, "args": {"gamma": 0.9}},
    "king-buckets": {"every": 10, "args": {"gamma": 0.9}},
    "multi-layer": {"every": 10, "args": {"gamma": 0.9}},
    "threats": {"every": 10, "args": {"gamma": 0.9}},
    "simple": {"every": 10, "args": {"gamma": 0.9}},
    "stockfish-15.1": {"every": 6104, "args": {"step_size": 1, "gamma": 0.992}},
    "stockfish-19": {"every": 6104, "args": {"step_size": 1, "gamma": 0.992}},
    "stockfish-2022": {"every": 6104, "args": {"step_size": 1, "gamma": 0.992}},
}
WARMUP = {"name": f"{TORCHS}.LinearLR", "args": {"start_factor": 0.1, "total_iters": "10%"}, "steps": "10%"}
SHARED: dict[str, dict[str, Any]] = {
    "exponential": {"name": f"{TORCHS}.ExponentialLR", "every": "2.5%", "args": {"gamma": 0.5}},
    "cosine": {"name": f"{TORCHS}.CosineAnnealingLR", "args": {"T_max": "100%"}},
    "milestones": {"name": f"{TORCHS}.MultiStepLR", "args": {"milestones": ["50%", "75%"], "gamma": 0.1}},
    "one cycle": {"name": f"{TORCHS}.OneCycleLR", "args": {"max_lr": 1.0, "total_steps": "100%"}},
    "warm-up": {"parts": [WARMUP, {"name": f"{TORCHS}.CosineAnnealingLR", "args": {"T_max": "90%"}}]},
}


def config(schedule: dict[str, Any], steps: int) -> Config:
    tree = {"optimizer": {"name": "torch.optim.SGD", "args": {"lr": 1.0}}, "schedule": schedule}
    return parse_config({"task": "tests.support.toy", **tree, "train": {"steps": steps}}, "test")


def optimizers(schedule: dict[str, Any], steps: int) -> BucketOptimizers:
    made = single_bucket_optimizer(config(schedule, steps), PLAN)
    made.parameters[0][0].grad = made.parameters[0][0].detach().clone()
    return made


@given(every=st.integers(1, 1 << 32), step=st.integers(0, 1 << 32))
def test_a_number_of_steps_is_due_each_so_many(every: int, step: int) -> None:
    schedule = ScheduleConfig(every=every, args={}).resolve(7)
    assert schedule.scheduler_steps(step) == step // every
    assert schedule.training_step(step + 1) == (step + 1) * every


@given(share=st.integers(1, 100_000), steps=st.integers(1, 1 << 32), step=st.integers(0, 1 << 32), due=st.integers(1))
def test_a_share_is_due_at_the_nearest_steps_and_as_often_in_a_run_of_any_length(
    share: int, steps: int, step: int, due: int
) -> None:
    schedule = ScheduleConfig(every=f"{share / 1000:.3f}%", args={}).resolve(steps)
    assert schedule.scheduler_steps(0) == 0
    exact = Fraction(due * share * steps, 100_000)
    assert abs(schedule.training_step(due) - max(Fraction(1), exact)) <= Fraction(1, 2)
    found = schedule.scheduler_steps(step)
    assert found == 0 or schedule.training_step(found) <= step
    assert step == 0 or step < schedule.training_step(found + 1)
    scheduler_steps = 100_000 / share
    assert abs(schedule.scheduler_steps(steps) - scheduler_steps) <= 1 or steps < scheduler_steps


def test_every_bundled_schedule_is_known_here() -> None:
    assert set(IN_STEPS) == {
        name for name in bundle.list_names() if not is_recipe(tomllib.loads(bundle.read_text(name)))
    }


@pytest.mark.parametrize("name", IN_STEPS)
def test_bundled_schedules_are_shares_that_in_their_own_length_are_the_steps_of_old(name: str) -> None:
    tree = tomllib.loads(bundle.read_text(name))
    found = parse_config(tree, name)
    old = ScheduleConfig(name=found.schedule.name, **IN_STEPS[name]).resolve(found.train.steps)
    assert found.run_schedule.has_shares
    assert (found.run_schedule.name, found.run_schedule.args) == (old.name, old.args)
    for change in range(1, old.scheduler_steps(found.train.steps) + 1):
        assert found.run_schedule.training_step(change) == old.training_step(change)
        for step in (old.training_step(change) - 1, old.training_step(change)):
            assert found.run_schedule.scheduler_steps(step) == old.scheduler_steps(step)


@pytest.mark.parametrize("name", IN_STEPS)
def test_bundled_schedules_end_with_the_same_rate_in_a_longer_run(name: str) -> None:
    tree = tomllib.loads(bundle.read_text(name))
    tree["optimizer"] = {"name": "torch.optim.SGD", "args": {"lr": 1.0}}  # that of the recipe needs another package
    tree["task"] = "tests.support.toy"
    tree = {key: value for key, value in tree.items() if key not in ("model", "loss")}
    lasts = []
    for factor in (1, 3):
        longer = parse_config({**tree, "train": {**tree["train"], "steps": tree["train"]["steps"] * factor}}, name)
        made = single_bucket_optimizer(longer, PLAN)
        lasts.append(summarize_rates(made, longer.run_schedule, 0, longer.train.steps))
    assert lasts[0].low_from is lasts[1].low_from is None
    assert lasts[0].middle == pytest.approx(lasts[1].middle, rel=0.06)
    assert lasts[0].last == pytest.approx(lasts[1].last, rel=0.06, abs=1e-4)


@pytest.mark.parametrize("kind", SHARED)
def test_rates_that_are_told_are_those_of_the_steps(kind: str) -> None:
    schedule = SHARED[kind]
    done = rates(optimizers(schedule, 80), 0, 80)
    told = summarize_rates(optimizers(schedule, 80), config(schedule, 80).run_schedule, 0, 80)
    assert (told.first, told.middle, told.last) == (done[0], done[40], done[79])
    low = [step for step, rate in enumerate(done) if rate < 1e-6 * max(done[: step + 1])]
    assert told.low_from == (low[0] if low else None)


@pytest.mark.parametrize("kind", SHARED)
@settings(max_examples=10, deadline=None)
@given(step=st.integers(0, 40), steps=st.integers(41, 200))
def test_a_run_of_another_length_goes_on_as_one_that_had_it_from_the_start(kind: str, step: int, steps: int) -> None:
    first = optimizers(SHARED[kind], 40)
    rates(first, 0, step)
    tensors, plain = first.state()
    again = optimizers(SHARED[kind], steps)
    again.load_state(tensors, json.loads(json.dumps(plain)))
    again.follow_length(step)
    assert rates(again, step, steps) == pytest.approx(rates(optimizers(SHARED[kind], steps), 0, steps)[step:])


def test_a_rate_that_was_set_by_hand_stays_in_proportion() -> None:
    first = optimizers(SHARED["exponential"], 40)
    done = rates(first, 0, 10)
    first.override(Override(10, "optimizer.args.lr", first.learning_rate / 4))
    first._schedule = config(SHARED["exponential"], 80).run_schedule
    first.follow_length(10)
    assert rates(first, 10, 80) == pytest.approx(
        [rate / 4 for rate in rates(optimizers(SHARED["exponential"], 80), 0, 80)[10:]]
    )
    assert done[0] == 1.0


def test_a_schedule_in_steps_does_not_follow() -> None:
    schedule = {"name": f"{TORCHS}.CosineAnnealingLR", "args": {"T_max": 40}}
    first = optimizers(schedule, 40)
    rates(first, 0, 10)
    before = first.learning_rate
    first.follow_length(10)
    assert first.learning_rate == before


@pytest.mark.parametrize("value", ["0%", "101%", "1", "-1%", "1 %", "1e3%", "nan%", "%", "ten%", "1%%", ""])
@pytest.mark.parametrize("key", ["every", "parts.0.steps"])
def test_what_is_no_share_is_refused_with_the_key(key: str, value: str) -> None:
    schedule: dict[str, Any] = {"every": value} if key == "every" else {"parts": [{"steps": value}, {}]}
    with pytest.raises(ConfigError, match=rf'schedule\.{key}: a share of train.steps is written "1%".*not '):
        config(schedule, 10)


@pytest.mark.parametrize("value", [0, -3, (1 << 32) + 1, 1.5, True, None])
def test_what_is_no_number_of_steps_is_refused_with_the_key(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"schedule\.every: input should be"):
        config({"every": value}, 10)


@pytest.mark.runs
def test_a_resume_with_more_steps_says_so_and_has_the_rates_of_the_longer_run(tmp_path: Path) -> None:
    given = {**TOY, "schedule.name": f"{TORCHS}.CosineAnnealingLR", "schedule.args": {"T_max": "100%"}}
    short = run_well(tmp_path / "run", given)
    assert "learning rate: 0.01 at the start, 0.005 in the middle, 0.00017 at the end" in short.out
    longer = {**given, "train.steps": 24}
    killed = {"testing.crash_points": "coordinator.before_weights@6=kill"}
    resumed = run_well(tmp_path / "run", {**longer, **killed}, "--resume")
    assert "train.steps: 24 now, 12 then; the schedule is in shares of it, and goes on" in resumed.out
    assert "learning rate: 0.005 now, 0.00146 in the middle, 4.28e-05 at the end" in resumed.out
    told = {line["step"]: line["learning_rate"] for line in resumed.metrics() if "learning_rate" in line}
    whole = {line["step"]: line["learning_rate"] for line in run_well(tmp_path / "whole", longer).metrics()}
    assert [told[step] for step in sorted(told)[12:]] == pytest.approx([whole[step] for step in sorted(whole)[12:]])


@pytest.mark.runs
def test_a_rate_that_falls_to_nothing_is_said_before_the_run(tmp_path: Path) -> None:
    given = {**TOY, "train.steps": 60, "schedule.name": f"{TORCHS}.ExponentialLR", "schedule.args": {"gamma": 0.5}}
    checked = check(tmp_path / "run", given)
    assert checked.code == 0, checked.err
    assert "the learning rate falls below a millionth of its highest at step 21 of 60" in checked.out


def test_a_plateau_is_not_known_before(tmp_path: Path) -> None:
    given = {**TOY, "train.validate_every": 4, "schedule.plateau.patience": 3}
    checked = check(tmp_path / "run", given)
    assert "0.01 throughout; validations may lower it (schedule.plateau)" in checked.out
