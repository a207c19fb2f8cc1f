"""What a run's folder says of it: settings and the numbers of each step."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pool.checkpoint.folder import linked_step
from pool.checkpoint.state import BEST, FOLDER
from pool.errors import ConfigError
from pool.metrics.layout import LOSS, PREFIX

CONFIG = "config.json"
METRICS = "metrics.jsonl"


@dataclass(frozen=True)
class Run:
    """One run; its process may live."""

    name: str  # as it was given
    config: Mapping[str, Any]  # by dotted key
    records: Sequence[Mapping[str, Any]]  # in the order of the file
    best_step: int | None = None  # of the checkpoint that validated best

    @cached_property
    def steps(self) -> list[Mapping[str, Any]]:
        return [record for record in self.records if "loss" in record]

    @cached_property
    def validations(self) -> list[tuple[int, float]]:
        """Step and loss."""
        return [(record["step"], record["validation_loss"]) for record in self.records if "validation_loss" in record]

    @property
    def best(self) -> tuple[int, float] | None:
        """Step and loss of the first of the lowest validations; None if there is none."""
        return min(self.validations, key=lambda validation: validation[1], default=None)

    @property
    def metric(self) -> str:
        """The number of a validation that chooses the best checkpoint."""
        return str(self.config.get("train.best_metric", LOSS))

    @cached_property
    def best_checkpoint(self) -> tuple[int, float] | None:
        """Step of the checkpoint that validated best, and its number; None if there is none."""
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
    best = linked_step(folder / FOLDER, BEST)
    return Run(str(folder), dict(_flat(config)), list(_records(folder / METRICS)), None if best < 0 else best)


def differing(runs: Sequence[Run]) -> list[str]:
    """The keys whose values are not the same in all of them, but for what only names the run."""
    keys = dict.fromkeys(key for run in runs for key in run.config)
    unlike = (key for key in keys if len({json.dumps(run.config.get(key)) for run in runs}) > 1)
    return [key for key in unlike if key not in ("run.dir", "run.trace", "overrides")]


def _records(path: Path) -> Iterator[Mapping[str, Any]]:
    """The lines that are records; none of a file that is not there yet."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    for line in lines:
        with suppress(ValueError, RecursionError):  # the last one, of a process that was killed
            record = json.loads(line)
            if isinstance(record, dict) and type(record.get("step")) is int:
                yield record


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
