"""What a run's folder says of it, or of each member of an ensemble: settings and the numbers of each step."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pool.checkpoint.folder import linked_step, step_path
from pool.checkpoint.state import BEST, FOLDER, read_state
from pool.config.members import flat, settings_of_members
from pool.errors import ConfigError, PoolError
from pool.metrics.layout import LOSS, PREFIX
from pool.metrics.members import of_member
from pool.telemetry.records import METRICS, read_records

CONFIG = "config.json"


@dataclass(frozen=True)
class Run:
    """One run; its process may live."""

    name: str  # as it was given
    config: Mapping[str, Any]  # by dotted key
    records: Sequence[Mapping[str, Any]]  # in the order of the file
    best_step: int | None = None  # of the checkpoint that validated best
    member: int | None = None  # of an ensemble, as if it were a run of its own
    members: Sequence[Run] = ()  # of an ensemble
    best_of_members: tuple[int, float] | None = None  # of an ensemble: as best_checkpoint

    @cached_property
    def steps(self) -> list[Mapping[str, Any]]:
        return [record for record in self.records if "loss" in record]

    @property
    def last_loss(self) -> float | None:
        """Of the newest step; None before the first."""
        return self.steps[-1]["loss"] if self.steps else None

    @cached_property
    def validations(self) -> list[tuple[int, float]]:
        """Step and loss."""
        return [(record["step"], record["validation_loss"]) for record in self.records if "validation_loss" in record]

    @property
    def best(self) -> tuple[int, float] | None:
        """Step and loss of the first of the lowest validations, of an ensemble that of its best member; None if there
        is none."""
        return (self.best_member or self)._lowest

    @property
    def best_member(self) -> Run | None:
        """With the lowest validation of all; None if there are no members, or no validations."""
        known = [(member._lowest[1], number) for number, member in enumerate(self.members) if member._lowest]
        return self.members[min(known)[1]] if known else None

    @property
    def _lowest(self) -> tuple[int, float] | None:
        finite = [validation for validation in self.validations if math.isfinite(validation[1])]
        return min(finite, key=lambda validation: validation[1], default=None)

    @property
    def metric(self) -> str:
        """The number of a validation that chooses the best checkpoint."""
        return str(self.config.get("train.best_metric", LOSS))

    @cached_property
    def best_checkpoint(self) -> tuple[int, float] | None:
        """Step of the checkpoint that validated best, and its number, of an ensemble that of its best member; None if
        there is none."""
        if self.members:
            return self.best_of_members
        key = f"{PREFIX}{self.metric}"
        of_step = (record[key] for record in self.records if key in record and record["step"] == self.best_step)
        value = next(of_step, None)
        return None if self.best_step is None or value is None else (self.best_step, float(value))

    @property
    def seconds(self) -> float:
        """Spent on steps, of all lives of the run: neither pauses between them nor starting."""
        return self._samples_per_step * sum(1 / rate for rate in self._rates)

    @property
    def samples_per_second(self) -> float:
        """Mean over these seconds."""
        return len(self._rates) / sum(1 / rate for rate in self._rates) if self._rates else 0.0

    @property
    def _samples_per_step(self) -> int:
        return int(self.config.get("data.batch_size", 0) * self.config.get("train.batches_per_step", 0))

    @cached_property
    def _rates(self) -> list[float]:
        """Samples a second of each step; that of the first of a life is not known."""
        return [rate for record in self.steps if (rate := float(record.get("samples_per_second", 0))) > 0]


def read_run(folder: Path) -> Run:
    """Raises ConfigError for what is no run's folder."""
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{folder}: is no folder of a run: {CONFIG}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{folder / CONFIG}: is damaged, or no run has written it") from None
    if not isinstance(config, dict):
        raise ConfigError(f"{folder / CONFIG}: no run has written it: a table is expected")
    try:
        settings = settings_of_members(config)
    except ValueError as error:
        raise ConfigError(f"{folder / CONFIG}: no run has written it: {error}") from None
    records = list(read_records(folder / METRICS))
    name = str(folder)
    linked = linked_step(folder / FOLDER, BEST)
    best = None if linked < 0 else linked
    if len(settings) == 1:
        return Run(name, dict(flat(config)), records, best)
    members = [
        Run(f"{name} member {m}", dict(flat(own)), [of_member(record, m) for record in records], best, member=m)
        for m, own in enumerate(settings)
    ]
    known = None if best is None else _best_of_members(step_path(folder / FOLDER, best))
    return Run(name, dict(flat(config)), records, best, members=members, best_of_members=known)


def _best_of_members(checkpoint: Path) -> tuple[int, float] | None:
    try:
        state = read_state(checkpoint)
    except (OSError, PoolError):  # the run may have removed it meanwhile
        return None
    best = state.validations.best
    return None if best is None else (best.step, best.value(state.goal.metric))
