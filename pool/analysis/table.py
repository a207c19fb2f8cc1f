"""Shows several runs side by side, as a table or as plain data, and the status of one run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pool.analysis.records import Run
from pool.config.member_settings import find_differing_keys
from pool.metrics.digits import format_value
from pool.metrics.layout import LOSS

METRIC = "best checkpoint"
COLUMNS = ("run", "state", "steps", "best validation", "at step", "last loss", "samples/s", "time", "last step", "ETA")
_MAX_SHOWN = 5  # most names shown in a line
_VALIDATION = ("data.validation", "data.validation_share", "train.validation_batches")
MEMBERS = "members"  # heading of the column that is there if a run is an ensemble


def summarize_run(run: Run, keys: Sequence[str]) -> dict[str, Any]:
    """Returns the numbers of a run, or of a member, and its settings of `keys`. A number that is not known or not
    finite is None. The last loss of an ensemble is the median of its members'."""
    validation, best_member, checkpoint = run.best_validation, run.best_member, run.best_checkpoint
    return {
        "run": run.name,
        "state": run.state,
        "step": run.last_step,
        "steps": run.config.get("train.steps"),
        "best_validation_loss": validation.value if validation else None,
        "best_validation_step": validation.step if validation else None,
        "best_metric": run.metric,
        "best_checkpoint_value": checkpoint.value if checkpoint else None,
        "best_checkpoint_step": checkpoint.step if checkpoint else None,
        "last_loss": _finite_or_none(run.last_loss),
        "samples_per_second": run.samples_per_second,
        "seconds": run.seconds,
        "last_step_time": run.last_step_time,
        "eta_seconds": run.eta_seconds,
        "member": run.member,
        "members": len(run.members) or None,
        "best_member": None if best_member is None else best_member.member,
        "config": {key: run.config.get(key) for key in keys},
    }


def summarize_status(run: Run) -> dict[str, Any]:
    """Returns what `pool status` shows of a run, under the names of `summarize_run`.

    Losses of an ensemble are medians of its members'.
    """
    status, validation = run.status, run.newest_validation or {}
    last_record = run.steps[-1] if run.steps else {}
    summary = summarize_run(run, ())
    progress = ("run", "state", "step", "steps", "last_step_time", "eta_seconds", "samples_per_second", "last_loss")
    best = ("best_metric", "best_checkpoint_value", "best_checkpoint_step")
    return {
        **{key: summary[key] for key in progress},
        "learning_rate": _finite_or_none(last_record.get("learning_rate")),
        "validation_loss": _finite_or_none(validation.get("validation_loss")),
        "validation_step": validation.get("step"),
        **{key: summary[key] for key in best},
        "disk_full": not run.has_room,
        "restarts": 0 if status is None else status.restarts,
        "exit_code": None if status is None else status.exit_code,
        "reason": "" if status is None else status.reason,
    }


def format_status(run: Run) -> list[str]:
    """Formats `summarize_status` as lines for people."""
    data = summarize_status(run)
    ended = "" if data["exit_code"] is None else f", exit code {data['exit_code']}"
    lines = [f"{data['run']}: {data['state']}{ended}", f"step {data['step']}/{data['steps']}"]
    if data["last_step_time"] is not None:
        lines[1] += f", the last at {format_time(data['last_step_time'])}"
    if data["disk_full"]:
        lines.append("the disk is full: newer steps are not on record, and what the run can't write waits: make room")
    if data["eta_seconds"] is not None:
        lines.append(f"ETA {format_duration(data['eta_seconds'])}, at {data['samples_per_second']:,.0f} samples/s")
    if data["last_loss"] is not None:
        rate = data["learning_rate"]
        lines.append(
            f"loss {format_value(data['last_loss'])}" + ("" if rate is None else f", learning rate {rate:.3g}")
        )
    if data["validation_loss"] is not None:
        lines.append(f"validation {format_value(data['validation_loss'])} of step {data['validation_step']}")
    if data["best_checkpoint_value"] is not None:
        value = format_value(data["best_checkpoint_value"])
        lines.append(f"best {data['best_metric']} {value} of step {data['best_checkpoint_step']}")
    if data["restarts"]:
        lines.append(f"restarts of processes: {data['restarts']}")
    return [*lines, *data["reason"].splitlines()]


def find_incomparable(runs: Sequence[Run]) -> list[str]:
    """Returns a line for each reason why numbers of these runs, or of different steps of one run, do not compare."""
    keys = find_differing_keys([run.config for run in runs])
    lines = []
    loss_keys = [key for key in keys if key == "task" or key.startswith("loss.")]
    if loss_keys:
        lines.append(
            f"losses do not compare: {_format_keys(loss_keys)} not the same in all runs, so they measure different "
            "things"
        )
    validation_keys = [key for key in keys if key in _VALIDATION]
    if validation_keys:
        lines.append(f"validations do not compare: {_format_keys(validation_keys)} not the same in all runs")
    names = [run.name for run in runs if has_moving_target(run.config)]
    if names:
        shown = ", ".join(names[:_MAX_SHOWN])
        if len(names) > _MAX_SHOWN:
            shown += ", ..."
        lines.append(f"losses of different steps measure different things, as lambda changes during the run: {shown}")
    return lines


def _format_keys(keys: Sequence[str]) -> str:
    """Lists keys with the verb of a sentence, such as `loss.a, loss.b are`."""
    shown = ", ".join(keys[:_MAX_SHOWN])
    if len(keys) > _MAX_SHOWN:
        shown += f" and {len(keys) - _MAX_SHOWN} more"
    verb = "is" if len(keys) == 1 else "are"
    return f"{shown} {verb}"


def has_moving_target(config: Mapping[str, Any]) -> bool:
    """Tells whether the target of the loss depends on the step. `config` is by dotted key."""
    start, end, parts = (config.get(f"loss.{key}") for key in ("lambda_start", "lambda_end", "lambda_parts"))
    return bool(parts) or start != end


def runs_table(runs: Sequence[Run]) -> list[list[str]]:
    """Returns a table: headings, then a row for each run. The settings that differ follow the numbers. There is a
    column of members if a run is an ensemble, and one of the best checkpoint's value if a metric other than the loss
    chooses it in any run."""
    keys = find_differing_keys([run.config for run in runs])
    has_members = any(run.members for run in runs)
    has_metric = any(run.metric != LOSS for run in runs)
    headings = list(COLUMNS)
    if has_members:
        headings.append(MEMBERS)
    if has_metric:
        headings.append(METRIC)
    table = [[*headings, *keys]]
    for run in runs:
        cells = _format_numbers(run)
        if has_members:
            cells.append(_format_members(run))
        if has_metric:
            cells.append(_format_metric(run))
        table.append([*cells, *format_settings(run, keys)])
    return table


def _format_metric(run: Run) -> str:
    """Formats the value of the best checkpoint if a metric other than the loss chooses it."""
    best = run.best_checkpoint
    if best is None or run.metric == LOSS:
        return ""
    return f"{run.metric} {format_value(best.value)} at {best.step}"


def _format_numbers(run: Run) -> list[str]:
    """Formats the cells of a run for the columns in COLUMNS."""
    data = summarize_run(run, ())
    return [
        data["run"],
        data["state"] or "",
        f"{data['step']}/{data['steps']}",
        _format_loss(data["best_validation_loss"]),
        "" if data["best_validation_step"] is None else str(data["best_validation_step"]),
        _format_loss(run.last_loss),
        f"{data['samples_per_second']:,.0f}",
        format_duration(data["seconds"]),
        format_time(data["last_step_time"]),
        "" if data["eta_seconds"] is None else format_duration(data["eta_seconds"]),
    ]


def format_duration(seconds: float) -> str:
    """Formats seconds as hours, minutes and seconds, such as 1:02:03."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


def format_time(time: float | None) -> str:
    """Formats a time, in seconds since 1970, as local date and time. Returns an empty text for None."""
    if time is None:
        return ""
    return datetime.fromtimestamp(time).astimezone().isoformat(" ", "seconds")[:19]


def _format_members(run: Run) -> str:
    """Returns the number of members and which one is best."""
    if not run.members:
        return ""
    best = run.best_member
    if best is None:
        return f"{len(run.members)}"
    return f"{len(run.members)}, best {best.member}"


def _finite_or_none(value: float | None) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return value


def _format_loss(value: float | None) -> str:
    return "" if value is None else format_value(value)


def format_settings(run: Run, keys: Sequence[str]) -> list[str]:
    """Formats the values of these settings of a run. A setting that the run does not have becomes an empty text."""
    return [json.dumps(run.config[key]).strip('"') if key in run.config else "" for key in keys]
