"""Reads runs from their folders: settings, numbers of each step, state. Each member (network) of an ensemble appears as
a run of its own, too."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from pool.checkpoint.folder import linked_step, step_path
from pool.checkpoint.state import BEST, FOLDER, LAST, read_state
from pool.config.load import CONFIG, read_recorded_settings
from pool.config.member_settings import flatten, parse_member_settings
from pool.errors import ConfigError, PoolError
from pool.metrics.layout import LOSS, PREFIX
from pool.metrics.medians import of_member
from pool.run_folder.records import METRICS, read_records
from pool.run_folder.room import has_room
from pool.run_folder.strict_json import value_at
from pool.telemetry.status import State, Status, goes_on, read_status, state_of

RECENT = 100  # number of newest steps whose speed predicts the end


@dataclass(frozen=True)
class Run:
    """A run as its folder shows it. Its process may be alive."""

    name: str  # path of the folder as the user gave it
    config: Mapping[str, Any]  # settings by dotted key
    records: Sequence[Mapping[str, Any]]  # of metrics.jsonl, in the order of the file
    best_step: int | None = None  # step of the best checkpoint; None: there is none
    member: int | None = None  # number of the member that this is; None: a whole run
    members: Sequence[Run] = ()  # of an ensemble, each as a run
    best_of_members: tuple[int, float] | None = None  # of an ensemble: value of best_checkpoint
    state: State | None = None  # None: this process may not look at the run's lock
    status: Status | None = None  # of its newest start, if it has written one
    checkpoint: int = -1  # step of the newest checkpoint; -1: none
    has_room: bool = True  # whether the disk that holds its folder has free space

    @cached_property
    def steps(self) -> list[Mapping[str, Any]]:
        """The records of training steps, in order."""
        return [record for record in self.records if "loss" in record]

    @property
    def last_step(self) -> int:
        """The newest step in the records or in a checkpoint. While a disk is full, records can be missing."""
        recorded = int(self.steps[-1]["step"]) if self.steps else 0
        return max(recorded, self.checkpoint)

    @property
    def last_loss(self) -> float | None:
        """The loss of the newest step, or None before the first."""
        return self.steps[-1]["loss"] if self.steps else None

    @property
    def last_step_time(self) -> float | None:
        """The time at which the newest step was done, in seconds since 1970, or None before the first."""
        time = self.steps[-1].get("time") if self.steps else None
        return float(time) if isinstance(time, int | float) else None

    @property
    def eta(self) -> float | None:
        """The seconds to the end of the run at the speed of the newest steps. None if the run is not running, its disk
        is full, or its speed is not known yet."""
        rates = self._rates[-RECENT:]
        if self.state != "running" or not rates or not self.has_room:
            return None
        left = int(self.config.get("train.steps", 0)) - int(self.steps[-1]["step"])
        return max(0, left) * self._samples_per_step * fmean(1 / rate for rate in rates)

    @cached_property
    def newest_validation(self) -> Mapping[str, Any] | None:
        """The record of the newest validation, or None before the first."""
        return next((record for record in reversed(self.records) if "validation_loss" in record), None)

    @cached_property
    def validations(self) -> list[tuple[int, float]]:
        """The step and loss of each validation."""
        return [(record["step"], record["validation_loss"]) for record in self.records if "validation_loss" in record]

    @property
    def best(self) -> tuple[int, float] | None:
        """The step and loss of the lowest validation, the first of equal ones. For an ensemble they are those of its
        best member. None if there is none."""
        return (self.best_member or self)._lowest

    @property
    def best_member(self) -> Run | None:
        """The member with the lowest validation of all. None if there are no members, or no validations."""
        known = [(member._lowest[1], number) for number, member in enumerate(self.members) if member._lowest]
        return self.members[min(known)[1]] if known else None

    @property
    def _lowest(self) -> tuple[int, float] | None:
        """The step and loss of the run's own lowest validation, or None if no validation has a finite loss."""
        finite = [validation for validation in self.validations if math.isfinite(validation[1])]
        return min(finite, key=lambda validation: validation[1], default=None)

    @property
    def metric(self) -> str:
        """The name of the metric that chooses the best checkpoint (train.best_metric)."""
        return str(self.config.get("train.best_metric", LOSS))

    @cached_property
    def best_checkpoint(self) -> tuple[int, float] | None:
        """The step of the best checkpoint and its value of the metric. For an ensemble they are those of its best
        member. None if there is none."""
        if self.members:
            return self.best_of_members
        key = f"{PREFIX}{self.metric}"
        of_step = (record[key] for record in self.records if key in record and record["step"] == self.best_step)
        value = next(of_step, None)
        return None if self.best_step is None or value is None else (self.best_step, float(value))

    @property
    def seconds(self) -> float:
        """The seconds spent on steps, over all starts of the run. Pauses and startup do not count."""
        return self._samples_per_step * sum(1 / rate for rate in self._rates)

    @property
    def samples_per_second(self) -> float:
        """The mean speed over the seconds spent on steps."""
        return len(self._rates) / sum(1 / rate for rate in self._rates) if self._rates else 0.0

    @property
    def _samples_per_step(self) -> int:
        return int(self.config.get("data.batch_size", 0) * self.config.get("train.batches_per_step", 0))

    @cached_property
    def _rates(self) -> list[float]:
        """The samples per second of each step. The first step after a start has none."""
        return [rate for record in self.steps if (rate := float(record.get("samples_per_second", 0))) > 0]


def run_folders(folders: Sequence[Path]) -> list[Path]:
    """Returns the run folders in `folders`. Each of these is a run itself, or holds runs, or holds folders of recipes
    with runs. Raises ConfigError for any other folder."""
    runs = []
    for folder in folders:
        if not folder.is_dir() or os.path.lexists(folder / CONFIG):
            runs.append(folder)
        elif inside := sorted(path.parent for depth in ("*", "*/*") for path in folder.glob(f"{depth}/{CONFIG}")):
            runs += inside
        else:
            raise ConfigError(f"{folder}: is no folder of a run, and none is in it: no {CONFIG}")
    return runs


def read_runs(folders: Sequence[Path], warn: Callable[[str], object]) -> list[Run]:
    """Reads all runs that `run_folders` finds. A damaged run that was found inside a given folder is left out, and
    reported to `warn`. Raises ConfigError for a given folder that is no run's and holds none."""
    runs = []
    for folder in run_folders(folders):
        try:
            runs.append(read_run(folder))
        except ConfigError as error:
            if folder in folders:
                raise
            warn(f"left out: {error}")
    return runs


def read_run(folder: Path, records_of: Callable[[Path], Iterable[Mapping[str, Any]]] = read_records) -> Run:
    """Reads one run. `records_of` reads its metrics.jsonl. Raises ConfigError if the folder is no run's."""
    config = read_recorded_settings(folder)
    try:
        settings = parse_member_settings(config)
    except ValueError as error:
        raise ConfigError(f"{folder / CONFIG}: no run has written it: {error}") from None
    running = _goes_on(folder)  # first: the records of a run that has ended are complete
    status = read_status(folder)
    if running and status is not None and status.exit_code is not None:
        status = None  # it is from the previous start of the run
    records = list(records_of(folder / METRICS))
    last, linked = (linked_step(folder / FOLDER, name) for name in (LAST, BEST))
    steps = value_at(config, "train.steps")
    ended = state_of(status, all_steps=isinstance(steps, int) and 0 < steps <= last)
    whole: dict[str, Any] = {
        "state": None if running is None else "running" if running else ended,
        "status": status,
        "checkpoint": last,
        "has_room": not running or has_room(folder),
    }
    name = str(folder)
    best = None if linked < 0 else linked
    if len(settings) == 1:
        return Run(name, dict(flatten(config)), records, best, **whole)
    members = [
        Run(
            f"{name} member {m}",
            dict(flatten(own)),
            [of_member(record, m) for record in records],
            best,
            member=m,
            **whole,
        )
        for m, own in enumerate(settings)
    ]
    known = None if best is None else _best_of_members(step_path(folder / FOLDER, best))
    return Run(name, dict(flatten(config)), records, best, members=members, best_of_members=known, **whole)


def _goes_on(folder: Path) -> bool | None:
    """Returns whether the run's process is alive, or None if this process may not look at its lock."""
    try:
        return goes_on(folder)
    except OSError:
        return None


def _best_of_members(checkpoint: Path) -> tuple[int, float] | None:
    """Returns the step and value of the best member in a checkpoint. None if it has none, or the checkpoint is gone."""
    try:
        state = read_state(checkpoint)
    except (OSError, PoolError):  # the run may have removed it meanwhile
        return None
    best = state.validations.best
    return None if best is None else (best.step, best.value(state.goal.metric))
