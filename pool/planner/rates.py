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
_LOW = 1e-6  # fraction of the highest rate so far below which a rate is low
_LEAST = 0.01  # fraction of steps with a low rate that is reported; a cosine always ends at 0


def plan_learning_rates(start: PlannerStart, plans: Sequence[Plan]) -> tuple[LearningRates | None, ...]:
    """Returns the learning rates of each member over the steps to be done; None if computing them takes too long.

    Raises ConfigError if the code of a schedule fails before the end of the run.
    """
    members = start.config.members
    states: Sequence[Mapping[str, Any] | None] = [None] * len(members)
    other_length = False
    overrides: Sequence[Override] = ()
    if start.checkpoint is not None:
        saved = read_state(start.checkpoint)
        other_length = value_at(saved.config, "train.steps") != start.config.train.steps
        states = [
            {key: plain[key] and plain[key][:1] for key in ("groups", "schedulers")}
            for _, plain in split_state(members, plans, ({}, saved.optimizer.plain()))
        ]
        overrides = [o for o in start.overrides if o.step == start.step and o not in saved.optimizer.overrides]
    known: dict[str, LearningRates | None] = {}  # by schedule: members with the same schedule share the result
    rates = []
    for member, plan, state in zip(members, plans, states, strict=True):
        kind = f"{member.optimizer} {member.schedule} {state}"
        if kind not in known:
            known[kind] = None
            if member.run_schedule.scheduler_steps(member.train.steps) <= MAX_SCHEDULE_STEPS:
                known[kind] = _of_member(member, plan, start.step, state, overrides, other_length=other_length)
        rates.append(known[kind])
    return tuple(rates)


def _of_member(
    config: Config,
    plan: Plan,
    step: int,
    state: Mapping[str, Any] | None,
    overrides: Sequence[Override],
    *,
    other_length: bool,
) -> LearningRates:
    """Returns the learning rates of a member from step `step` on.

    `state`: groups and schedules of the member's first bucket in a checkpoint. `other_length`: train.steps has changed
    since the checkpoint.
    """
    optimizers = single_bucket_optimizer(config, plan)
    try:
        if state is None or state["groups"] is None:
            if step:
                optimizers.move_schedule_to(step)
        else:
            optimizers.take_numbers(state)
            if other_length:
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
    low_from, low = None, 0
    due, step = schedule.scheduler_steps(begin), begin
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that the optimizer was not stepped
        while step < end:
            due += 1
            change = min(schedule.training_step(due), end) if schedule.is_set else end
            if change > step:
                last = optimizers.learning_rate
                highest = max(highest, last)
                middle = last if step <= (begin + end) // 2 else middle
                if last < _LOW * highest:
                    low_from, low = step if low_from is None else low_from, low + change - step
            step = change
            if step < end:
                optimizers.step_schedule(step - 1)
    return LearningRates(first, middle, last, low_from if low >= _LEAST * (end - begin) else None)
