"""Turns a config into that of a short run that is made only for the numbers of its steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pool.config.changes import Change


def short_run(run_dir: str, steps: int, more_settings: Mapping[str, Any]) -> list[Change]:
    """Returns the changes that switch off validations, checkpoints, sinks and the user's programs.

    `more_settings`: further keys with their values.
    """
    values = {
        "run.dir": run_dir,
        "run.sinks": [],
        "run.trace": "",
        "telemetry.prometheus": "",
        "data.validation": [],
        "train.steps": steps,
        "train.epochs": 0,
        "train.validate_every": 0,
        "train.best_metric": "loss",
        "train.early_stopping": None,
        "train.checkpoint_every": 0,
        "train.checkpoint_minutes": 0,
        "train.on_end": [],
        "train.export_every": 0,
        "train.on_export": [],
        "train.export_weights": None,
        **more_settings,
    }
    return [Change(key, value, is_toml=True) for key, value in values.items()]
