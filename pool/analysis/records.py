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
from typing import Any, NamedTuple

from pool.checkpoint.folder import linked_step, step_path
from pool.checkpoint.state import BEST, FOLDER, LAST, read_state
from pool.config.load import CONFIG, read_recorded_settings
from pool.config.member_settings import flatten, parse_member_settings
from pool.errors import ConfigError, PoolError
from pool.metrics.layout import LOSS, PREFIX
from pool.metrics.medians import select_member
from pool.run_folder.records import METRICS, read_records
from pool.run_folder.room import has_room
from pool.run_folder.strict_json import value_at
from pool.telemetry.status import State, Status, goes_on, read_status, state_of

RECENT = 100  # number of newest steps whose speed predicts the end


class StepValue(NamedTuple):
    """Holds the value of a loss or a metric after a step."""

    step: int
    value: float


@dataclass(frozen=True)
class Run:
    """Describes a run as its folder shows it. Its process may be alive."""

    name: str  # path of the folder as the user gave it
    config: Mapping[str, Any]  # settings by dotted key
    records: Sequence[Mapping[str, Any]]  # of metrics.jsonl, in the order of the file
    best_step: int | None = None  # step of the best checkpoint; None: there is none
    member: int | None = None  # number of the member that this is; None: a full run
    members: Sequence[Run] = ()  # of an ensemble, each as a run
    best_of_members: StepValue | None = None  # of an ensemble: value of best_checkpoint
    state: State | None = None  # None: this process may not look at the run's lock
    status: Status | None = None  # of its newest start, if it has written one
    checkpoint: int = -1  # step of the newest checkpoint; -1: none
    has_room: bool = True  # whether the disk that holds its folder has free space

    @cached_property
    def steps(self) -> list[Mapping[str, Any]]:
        """Returns the records of training steps, in order."""
        return [record for record in self.records if "loss" in record]

    @property
    def last_step(self) -> int:
        """Returns the newest step in the records or in a checkpoint. While a disk is full, records can be missing."""
        recorded = int(self.steps[-1]["step"]) if self.steps else 0
        return max(recorded, self.checkpoint)

    @property
    def last_loss(self) -> float | None:
        """Returns the loss of the newest step, or None before the first."""
        return self.steps[-1]["loss"] if self.steps else None

    @property
    def last_step_time(self) -> float | None:
        """Returns the time at which the newest step was done, in seconds since 1970, or None before the first."""
        time = self.steps[-1].get("time") if self.steps else None
        return float(time) if isinstance(time, int | float) else None

    @property
    def eta_seconds(self) -> float | None:
        """Returns the seconds to the end of the run at the speed of the newest steps.

        Returns None if the run is not running, its disk is full, or it has done too few steps.
        """
        rates = self._rates[-RECENT:]
        if self.state != "running" or not rates or not self.has_room:
            return None
        remaining_steps = int(self.config.get("train.steps", 0)) - int(self.steps[-1]["step"])
        return max(0, remaining_steps) * self._samples_per_step * fmean(1 / rate for rate in rates)

    @cached_property
    def newest_validation(self) -> Mapping[str, Any] | None:
        """Returns the record of the newest validation, or None before the first."""
        records = [record for record in self.records if "validation_loss" in record]
        return records[-1] if records else None

    @cached_property
    def validations(self) -> list[StepValue]:
        """Returns the step and loss of each validation."""
        records = [record for record in self.records if "validation_loss" in record]
        return [StepValue(record["step"], record["validation_loss"]) for record in records]

    @property
    def best_validation(self) -> StepValue | None:
        """Returns the step and loss of the lowest validation, the first of equal ones, or None if there is none.

        For an ensemble they are those of its best member.
        """
        return (self.best_member or self)._lowest_validation

    @property
    def best_member(self) -> Run | None:
        """Returns the member with the lowest validation of all. None if there are no members, or no validations."""
        best: Run | None = None
        lowest = math.inf
        for member in self.members:
            validation = member._lowest_validation
            if validation is not None and validation.value < lowest:
                best, lowest = member, validation.value
        return best

    @property
    def _lowest_validation(self) -> StepValue | None:
        """Returns the step and loss of the run's own lowest validation, or None if no validation has a finite loss."""
        finite = [validation for validation in self.validations if math.isfinite(validation.value)]
        return min(finite, key=lambda validation: validation.value, default=None)

    @property
    def metric(self) -> str:
        """Returns the name of the metric that chooses the best checkpoint (train.best_metric)."""
        return str(self.config.get("train.best_metric", LOSS))

    @cached_property
    def best_checkpoint(self) -> StepValue | None:
        """Returns the step of the best checkpoint and its value of the metric, or None if there is none.

        For an ensemble they are those of its best member.
        """
        if self.members:
            return self.best_of_members
        if self.best_step is None:
            return None
        key = f"{PREFIX}{self.metric}"
        for record in self.records:
            if key in record and record["step"] == self.best_step:
                value = record[key]
                return None if value is None else StepValue(self.best_step, float(value))
        return None

    @property
    def seconds(self) -> float:
        """Returns the seconds spent on steps, over all starts of the run. Pauses and startup do not count."""
        return self._samples_per_step * sum(1 / rate for rate in self._rates)

    @property
    def samples_per_second(self) -> float:
        """Returns the mean speed over the seconds spent on steps."""
        if not self._rates:
            return 0.0
        return len(self._rates) / sum(1 / rate for rate in self._rates)

    @property
    def _samples_per_step(self) -> int:
        return int(self.config.get("data.batch_size", 0) * self.config.get("train.batches_per_step", 0))

    @cached_property
    def _rates(self) -> list[float]:
        """Returns the samples per second of each step. The first step after a start has none."""
        rates = [float(record.get("samples_per_second", 0)) for record in self.steps]
        return [rate for rate in rates if rate > 0]


def find_run_folders(folders: Sequence[Path]) -> list[Path]:
    """Returns the run folders in `folders`. Each of these is a run itself, or holds runs, or holds folders of recipes
    with runs. Raises ConfigError for any other folder."""
    runs = []
    for folder in folders:
        if not folder.is_dir() or os.path.lexists(folder / CONFIG):
            runs.append(folder)
            continue
        configs = [*folder.glob(f"*/{CONFIG}"), *folder.glob(f"*/*/{CONFIG}")]
        if not configs:
            raise ConfigError(f"{folder}: is no folder of a run, and none is in it: no {CONFIG}")
        runs += sorted(path.parent for path in configs)
    return runs


def read_runs(folders: Sequence[Path], warn: Callable[[str], object]) -> list[Run]:
    """Reads all runs that `find_run_folders` finds. A damaged run that was found inside a given folder is left out, and
    reported to `warn`. Raises ConfigError for a given folder that is no run's and holds none."""
    runs = []
    for folder in find_run_folders(folders):
        try:
            runs.append(read_run(folder))
        except ConfigError as error:
            if folder in folders:
                raise
            warn(f"left out: {error}")
    return runs


def read_run(folder: Path, read_metrics: Callable[[Path], Iterable[Mapping[str, Any]]] = read_records) -> Run:
    """Reads one run. `read_metrics` reads its metrics.jsonl. Raises ConfigError if the folder is no run's."""
    config = read_recorded_settings(folder)
    try:
        settings = parse_member_settings(config)
    except ValueError as error:
        raise ConfigError(f"{folder / CONFIG}: no run has written it: {error}") from None
    is_running = _is_running(folder)  # first: the records of a run that has ended are complete
    status = read_status(folder)
    if is_running and status is not None and status.exit_code is not None:
        status = None  # it is from the previous start of the run
    records = list(read_metrics(folder / METRICS))
    last_step, best_link = linked_step(folder / FOLDER, LAST), linked_step(folder / FOLDER, BEST)
    best_step = None if best_link < 0 else best_link
    common: dict[str, Any] = {
        "state": _find_state(config, status, last_step, is_running=is_running),
        "status": status,
        "checkpoint": last_step,
        "has_room": not is_running or has_room(folder),
    }
    name = str(folder)
    if len(settings) == 1:
        return Run(name, dict(flatten(config)), records, best_step, **common)
    members = [
        Run(
            f"{name} member {index}",
            dict(flatten(member_settings)),
            [select_member(record, index) for record in records],
            best_step,
            member=index,
            **common,
        )
        for index, member_settings in enumerate(settings)
    ]
    best = None if best_step is None else _read_best_value(step_path(folder / FOLDER, best_step))
    return Run(name, dict(flatten(config)), records, best_step, members=members, best_of_members=best, **common)


def _find_state(
    config: Mapping[str, Any], status: Status | None, last_step: int, *, is_running: bool | None
) -> State | None:
    """Returns the state of a run. `last_step`: of its newest checkpoint. `is_running`: None if that can't be known."""
    if is_running is None:
        return None
    if is_running:
        return "running"
    steps = value_at(config, "train.steps")
    return state_of(status, all_steps=isinstance(steps, int) and 0 < steps <= last_step)


def _is_running(folder: Path) -> bool | None:
    """Returns whether the run's process is alive, or None if this process may not look at its lock."""
    try:
        return goes_on(folder)
    except OSError:
        return None


def _read_best_value(checkpoint: Path) -> StepValue | None:
    """Returns the step and value of the best member in a checkpoint. None if it has none, or the checkpoint is gone."""
    try:
        state = read_state(checkpoint)
    except (OSError, PoolError):  # the run may have removed it meanwhile
        return None
    best = state.validations.best
    if best is None:
        return None
    return StepValue(best.step, best.value(state.goal.metric))
