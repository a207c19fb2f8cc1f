"""Computes the learning rates of a run by stepping its schedule, so that the user sees them before the run begins."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from pool.checkpoint.overrides import Override
from pool.checkpoint.state import read_state
from pool.config.schedule import Schedule
from pool.config.tree import Config
from pool.errors import ConfigError, RunError
from pool.exchange.plan import Plan
from pool.optim.buckets import BucketOptimizers
from pool.optim.joined_state import split_state
from pool.planner.trial import single_bucket_optimizer
from pool.process.plan_result import LearningRates
from pool.process.start import PlannerStart
from pool.run_folder.strict_json import value_at

MAX_SCHEDULE_STEPS = 1_000_000  # steps of a schedule, which take about three seconds
_LOW_FRACTION = 1e-6  # of the highest rate so far, below which a rate is low
_MIN_LOW_STEPS = 0.01  # fraction of steps with a low rate that is reported; a cosine always ends at 0


def plan_learning_rates(start: PlannerStart, plans: Sequence[Plan]) -> tuple[LearningRates | None, ...]:
    """Returns the learning rates of each member over the steps to be done; None if computing them takes too long.

    Raises ConfigError if the code of a schedule fails before the end of the run.
    """
    members = start.config.members
    states: Sequence[Mapping[str, Any] | None] = [None] * len(members)
    has_new_length = False
    new_overrides: Sequence[Override] = ()
    if start.checkpoint is not None:
        saved = read_state(start.checkpoint)
        has_new_length = value_at(saved.config, "train.steps") != start.config.train.steps
        saved_states = split_state(members, plans, ({}, saved.optimizer.plain()))
        states = [_first_bucket_state(plain) for _, plain in saved_states]
        new_overrides = [
            override
            for override in start.overrides
            if override.step == start.step and override not in saved.optimizer.overrides
        ]
    rates_by_schedule: dict[str, LearningRates | None] = {}  # members with the same schedule share the result
    rates = []
    for member, plan, state in zip(members, plans, states, strict=True):
        schedule = f"{member.optimizer} {member.schedule} {state}"
        if schedule not in rates_by_schedule:
            rates_by_schedule[schedule] = None
            if member.run_schedule.scheduler_steps(member.train.steps) <= MAX_SCHEDULE_STEPS:
                rates_by_schedule[schedule] = _plan_member_rates(
                    member, plan, start.step, state, new_overrides, has_new_length=has_new_length
                )
        rates.append(rates_by_schedule[schedule])
    return tuple(rates)


def _first_bucket_state(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameter groups and the schedules of the first bucket, from an optimizer's saved state."""
    state = {}
    for key in ("groups", "schedulers"):
        of_buckets = plain[key]
        state[key] = of_buckets[:1] if of_buckets else of_buckets
    return state


def _plan_member_rates(
    config: Config,
    plan: Plan,
    step: int,
    state: Mapping[str, Any] | None,
    overrides: Sequence[Override],
    *,
    has_new_length: bool,
) -> LearningRates:
    """Returns the learning rates of a member from step `step` on.

    `state`: groups and schedules of the member's first bucket in a checkpoint. `has_new_length`: train.steps has
    changed since the checkpoint.
    """
    optimizers = single_bucket_optimizer(config, plan)
    try:
        if state is None or state["groups"] is None:
            if step:
                optimizers.move_schedule_to(step)
        else:
            optimizers.take_numbers(state)
            if has_new_length:
                optimizers.follow_length(step)
        for override in overrides:
            optimizers.override(override)
        return summarize_rates(optimizers, config.run_schedule, step, config.train.steps)
    except RunError as error:
        raise ConfigError(f"{error}; the run has train.steps = {config.train.steps}") from None


def summarize_rates(optimizers: BucketOptimizers, schedule: Schedule, begin: int, end: int) -> LearningRates:
    """Returns the learning rates of the steps from `begin` to `end`, and leaves the optimizers' schedules at `end`.

    Raises RunError.
    """
    first = middle = last = highest = optimizers.learning_rate
    first_low_step: int | None = None
    num_low_steps = 0
    num_changes = schedule.scheduler_steps(begin)
    step = begin
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that the optimizer was not stepped
        while step < end:
            num_changes += 1
            next_change = min(schedule.training_step(num_changes), end) if schedule.is_set else end
            if next_change > step:
                last = optimizers.learning_rate
                highest = max(highest, last)
                if step <= (begin + end) // 2:
                    middle = last
                if last < _LOW_FRACTION * highest:
                    num_low_steps += next_change - step
                    if first_low_step is None:
                        first_low_step = step
            step = next_change
            if step < end:
                optimizers.step_schedule(step - 1)
    is_low_reported = num_low_steps >= _MIN_LOW_STEPS * (end - begin)
    return LearningRates(first, middle, last, first_low_step if is_low_reported else None)
