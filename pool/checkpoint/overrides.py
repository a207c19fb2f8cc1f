"""Numbers of optimizer and schedule that a user changes when a run is resumed: `--override optimizer.args.lr=5e-4`.

An override belongs to a step: it is applied before that step begins. The changed state records it, so that it is
applied once, wherever the run is resumed. Pure, and free of torch.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from pool.checkpoint.disk.plain import same
from pool.checkpoint.fingerprint import IMPLEMENTATION

OPTIMIZER, SCHEDULE = "optimizer.args.", "schedule.args."
_RATES = ("initial_lr", "max_lr", "min_lr")  # of a parameter group: what schedules compute lr from
_POSITION = ("base_lrs", "last_epoch", "verbose")  # of a schedule: not its arguments


@dataclass(frozen=True)
class Override:
    step: Annotated[int, Field(ge=0, lt=1 << 63)]  # the first that is done with it
    key: str
    value: Any


def allowed(state: Mapping[str, Any]) -> list[str]:
    """The keys that can be overridden in a state: numbers of optimizer and schedule as a checkpoint has them."""
    group = state["groups"][0][0] if state["groups"] and state["groups"][0] else {}
    schedule = state["schedulers"][0] if state["schedulers"] else {}
    return [
        *(f"{OPTIMIZER}{key}" for key in group if key not in (*_RATES, *IMPLEMENTATION)),
        *(f"{SCHEDULE}{key}" for key in schedule if not key.startswith("_") and key not in _POSITION),
    ]


def to_apply(
    step: int,
    history: Sequence[Override],
    recorded: Iterable[Override],
    given: Iterable[tuple[str, Any]],
) -> tuple[list[Override], list[Override]]:
    """Overrides that a run which resumes at `step` has still to apply, and those given that are in force already.

    `history`: applied to the saved state; `recorded`: given to earlier processes of the run, which may have ended
    before their next checkpoint; `given`: on this command line. The same value given twice counts once, since
    unattended runs are restarted with the same command.
    """
    pending = [entry for entry in recorded if entry.step >= step and entry not in history]
    repeated = []
    for key, value in given:
        earlier = [entry for entry in (*history, *pending) if entry.key == key]
        if earlier and same(earlier[-1].value, value):
            repeated.append(earlier[-1])
        else:
            pending = [entry for entry in pending if (entry.step, entry.key) != (step, key)]
            pending.append(Override(step, key, value))
    return sorted(pending, key=lambda entry: entry.step), repeated


def applied(state: Mapping[str, Any], override: Override) -> dict[str, Any]:
    """Numbers of optimizer and schedule with the override. A learning rate becomes the one that is in force now; the
    schedule goes on from it in proportion. The state given stays as it is."""
    groups, schedulers = copy.deepcopy(state["groups"]), copy.deepcopy(state["schedulers"])
    key = override.key.removeprefix(OPTIMIZER).removeprefix(SCHEDULE)
    if override.key.startswith(SCHEDULE):
        for scheduler in schedulers:
            scheduler[key] = _like(scheduler.get(key), override.value)
    else:
        for index, members in enumerate(groups):
            factors = [_changed(group, key, override.value) for group in members]
            for scheduler in schedulers[index : index + 1] if key == "lr" else ():
                _scale(scheduler, factors, override.value)
    return {**state, "groups": groups, "schedulers": schedulers}


def _changed(group: dict[str, Any], key: str, value: Any) -> float | None:
    """Sets a number of a group; of a learning rate, the new one by the old one, None if that was 0."""
    old, group[key] = group.get(key), value
    if key != "lr":
        return None
    factor = value / old if old else None
    for rate in _RATES:
        if rate in group:
            group[rate] = value if factor is None else group[rate] * factor
    return factor


def _scale(scheduler: dict[str, Any], factors: Sequence[float | None], value: Any) -> None:
    """The rates that a schedule, and those within it, start from."""
    if isinstance(rates := scheduler.get("base_lrs"), list):
        pairs = zip(rates, factors, strict=False)
        scheduler["base_lrs"] = [value if factor is None else rate * factor for rate, factor in pairs]
    if isinstance(rates := scheduler.get("_last_lr"), list):
        scheduler["_last_lr"] = [value for _ in rates]
    for inner in scheduler.get("_schedulers", ()):
        _scale(inner, factors, value)


def _like(old: Any, value: Any) -> Any:
    """Milestones are given as a list and kept as how often each occurs."""
    if isinstance(old, Mapping) and isinstance(value, list):
        return {str(entry): value.count(entry) for entry in value}
    return value
