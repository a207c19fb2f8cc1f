"""Overrides: optimizer and schedule values that a user changes at a resume, e.g. `--override optimizer.args.lr=5e-4`.

An override belongs to a step and is applied before that step begins. The changed state records it, so that it is
applied once, wherever the run is resumed later. Pure functions, free of torch.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from pool.checkpoint.fingerprint import IMPLEMENTATION
from pool.run_folder.strict_json import are_equal

OPTIMIZER, SCHEDULE = "optimizer.args.", "schedule.args."
_RATES = ("initial_lr", "max_lr", "min_lr")  # entries of a parameter group from which schedules compute lr
_RATES_OF_GROUPS = ("base_lrs", "max_lrs")  # entries of a schedule with a rate for each parameter group
_POSITION = ("base_lrs", "last_epoch", "verbose")  # entries of a schedule that are no arguments of its class


@dataclass(frozen=True)
class Override:
    """A new value for a key of optimizer or schedule, and the step before which it is applied."""

    step: Annotated[int, Field(ge=0, lt=1 << 63)]  # the first step that uses the value
    key: str
    value: Any


def allowed(state: Mapping[str, Any]) -> list[str]:
    """Lists the keys that `--override` accepts for a state.

    They are the numbers of optimizer and schedule that the checkpoint contains, of any ensemble member. The rates that
    schedules keep beside `lr`, and the arguments that choose an implementation, are left out.
    """
    optimizer_keys: dict[str, None] = {}  # an ordered set
    for groups in state["groups"] or ():
        optimizer_keys.update(dict.fromkeys(groups[0] if groups else ()))
    schedule_keys: dict[str, None] = {}
    for schedule in state["schedulers"]:
        schedule_keys.update(dict.fromkeys(schedule))
    return [
        *(f"{OPTIMIZER}{key}" for key in optimizer_keys if key not in (*_RATES, *IMPLEMENTATION)),
        *(f"{SCHEDULE}{key}" for key in schedule_keys if not key.startswith("_") and key not in _POSITION),
    ]


def to_apply(
    step: int,
    history: Sequence[Override],
    recorded: Iterable[Override],
    named: Iterable[tuple[str, Any]],
) -> tuple[list[Override], list[Override]]:
    """Determines which overrides a run that resumes at `step` has still to apply.

    `history`: overrides that were applied to the saved state already.
    `recorded`: overrides given to earlier processes of the run, which may have ended before their next checkpoint.
    `named`: key and value of the overrides on this command line.

    Returns two lists: the overrides to apply, by step, and those of `named` that the run has already. A value that is
    given again counts once, because unattended runs are restarted with the same command.
    """
    pending = [entry for entry in recorded if entry.step >= step and entry not in history]
    repeated = []
    for key, value in named:
        earlier = [entry for entry in (*history, *pending) if entry.key == key]
        if earlier and are_equal(earlier[-1].value, value):
            repeated.append(earlier[-1])
        else:
            pending = [entry for entry in pending if (entry.step, entry.key) != (step, key)]
            pending.append(Override(step, key, value))
    return sorted(pending, key=lambda entry: entry.step), repeated


def applied(state: Mapping[str, Any], override: Override, own: Sequence[Collection[str]] = ()) -> dict[str, Any]:
    """Returns a copy of `state` (numbers of optimizer and schedule) in which an override is applied.

    Groups and schedules without the override's key are not changed. An override of `lr` sets the rate in force at
    this step, and the schedule continues in proportion. `own`: for each of `optimizer.groups` the names of the
    arguments that it sets itself, which are not overridden. `state` is not modified.
    """
    if override.key == f"{OPTIMIZER}lr":
        return with_rates(state, lambda _: override.value)
    groups, schedulers = copy.deepcopy(state["groups"]), copy.deepcopy(state["schedulers"])
    key = override.key.removeprefix(OPTIMIZER).removeprefix(SCHEDULE)
    if override.key.startswith(SCHEDULE):
        for scheduler in schedulers:
            if key in scheduler:
                scheduler[key] = _convert_value(scheduler[key], override.value)
    else:
        for bucket_groups in groups:
            for group, own_arguments in zip(bucket_groups, ((), *own), strict=True):
                if key in group and key not in own_arguments:
                    group[key] = override.value
    return {**state, "groups": groups, "schedulers": schedulers}


def with_rates(state: Mapping[str, Any], rate: Callable[[Any], Any]) -> dict[str, Any]:
    """Returns a copy of `state` (numbers of optimizer and schedule) with changed learning rates.

    `rate` computes each new learning rate from the current one. The rates that the schedules store are scaled by the
    same factor. `state` is not modified.
    """
    groups, schedulers = copy.deepcopy(state["groups"]), copy.deepcopy(state["schedulers"])
    for index, bucket_groups in enumerate(groups):
        changes = [_set_rate(group, rate(group["lr"])) for group in bucket_groups]
        if index < len(schedulers):
            _scale_rates(schedulers[index], changes)
    return {**state, "groups": groups, "schedulers": schedulers}


@dataclass(frozen=True)
class _Change:
    """A change of the learning rate of a parameter group."""

    new_rate: Any
    factor: float | None  # new rate / old rate; None if the old rate was 0

    def scale(self, rate: Any) -> Any:
        """Returns a stored rate, scaled by the change's factor. Returns the new rate if the old one was 0."""
        return self.new_rate if self.factor is None else rate * self.factor


def _set_rate(group: dict[str, Any], new_rate: Any) -> _Change:
    """Sets the learning rate of a parameter group, and scales the other rates in the group by the same factor."""
    old_rate, group["lr"] = group["lr"], new_rate
    change = _Change(new_rate, new_rate / old_rate if old_rate else None)
    for key in _RATES:
        if key in group:
            group[key] = change.scale(group[key])
    return change


def _scale_rates(scheduler: dict[str, Any], changes: Sequence[_Change]) -> None:
    """Applies changes of the learning rate to the rates that a schedule stores, and to those of nested schedules.

    `changes` has one entry for each parameter group.
    """
    for key in _RATES_OF_GROUPS:
        rates = scheduler.get(key)
        if isinstance(rates, list):
            scheduler[key] = [change.scale(rate) for rate, change in zip(rates, changes, strict=False)]
    rates = scheduler.get("_last_lr")
    if isinstance(rates, list):
        scheduler["_last_lr"] = [change.new_rate for _, change in zip(rates, changes, strict=False)]
    for nested in scheduler.get("_schedulers", ()):
        _scale_rates(nested, changes)


def _convert_value(stored: Any, value: Any) -> Any:
    """Converts the value of an override to the type in which a scheduler stores it.

    Milestones are given as a list. A scheduler stores them as a mapping from milestone to the number of its
    occurrences.
    """
    if isinstance(stored, Mapping) and isinstance(value, list):
        return {str(entry): value.count(entry) for entry in value}
    return value
