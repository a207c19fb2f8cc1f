"""Shows several runs side by side, as a table or as plain data, and the status of one run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pool.analysis.records import Run
from pool.config.member_settings import find_differing_keys
from pool.metrics.digits import in_digits
from pool.metrics.layout import LOSS

METRIC = "best checkpoint"
COLUMNS = ("run", "state", "steps", "best validation", "at step", "last loss", "samples/s", "time", "last step", "ETA")
_SHOWN = 5  # most names shown in a line
_VALIDATION = ("data.validation", "data.validation_share", "train.validation_batches")
MEMBERS = "members"  # heading of the column that is there if a run is an ensemble


def as_data(run: Run, keys: Sequence[str]) -> dict[str, Any]:
    """Returns the numbers of a run, or of a member, and its settings of `keys`. A number that is not known or not
    finite is None. The last loss of an ensemble is the median of its members'."""
    best, best_member, by_metric = run.best, run.best_member, run.best_checkpoint
    return {
        "run": run.name,
        "state": run.state,
        "step": run.last_step,
        "steps": run.config.get("train.steps"),
        "best_validation_loss": best[1] if best else None,
        "best_validation_step": best[0] if best else None,
        "best_metric": run.metric,
        "best_checkpoint_value": by_metric[1] if by_metric else None,
        "best_checkpoint_step": by_metric[0] if by_metric else None,
        "last_loss": _finite(run.last_loss),
        "samples_per_second": run.samples_per_second,
        "seconds": run.seconds,
        "last_step_time": run.last_step_time,
        "eta_seconds": run.eta,
        "member": run.member,
        "members": len(run.members) or None,
        "best_member": None if best_member is None else best_member.member,
        "config": {key: run.config.get(key) for key in keys},
    }


def status_data(run: Run) -> dict[str, Any]:
    """Returns what `pool status` shows of a run, under the names of `as_data`. Losses of an ensemble are medians of its
    members'."""
    status, newest = run.status, run.newest_validation or {}
    last = run.steps[-1] if run.steps else {}
    known = as_data(run, ())
    kept = ("run", "state", "step", "steps", "last_step_time", "eta_seconds", "samples_per_second", "last_loss")
    best = ("best_metric", "best_checkpoint_value", "best_checkpoint_step")
    return {
        **{key: known[key] for key in kept},
        "learning_rate": _finite(last.get("learning_rate")),
        "validation_loss": _finite(newest.get("validation_loss")),
        "validation_step": newest.get("step"),
        **{key: known[key] for key in best},
        "disk_full": not run.has_room,
        "restarts": 0 if status is None else status.restarts,
        "exit_code": None if status is None else status.exit_code,
        "reason": "" if status is None else status.reason,
    }


def status_lines(run: Run) -> list[str]:
    """Formats `status_data` as lines for people."""
    data = status_data(run)
    ended = "" if data["exit_code"] is None else f", exit code {data['exit_code']}"
    lines = [f"{data['run']}: {data['state']}{ended}", f"step {data['step']}/{data['steps']}"]
    if data["last_step_time"] is not None:
        lines[1] += f", the last at {moment(data['last_step_time'])}"
    if data["disk_full"]:
        lines.append("the disk is full: newer steps are not on record, and what the run can't write waits: make room")
    if data["eta_seconds"] is not None:
        lines.append(f"ETA {duration(data['eta_seconds'])}, at {data['samples_per_second']:,.0f} samples/s")
    if data["last_loss"] is not None:
        rate = data["learning_rate"]
        lines.append(f"loss {in_digits(data['last_loss'])}" + ("" if rate is None else f", learning rate {rate:.3g}"))
    if data["validation_loss"] is not None:
        lines.append(f"validation {in_digits(data['validation_loss'])} of step {data['validation_step']}")
    if data["best_checkpoint_value"] is not None:
        value = in_digits(data["best_checkpoint_value"])
        lines.append(f"best {data['best_metric']} {value} of step {data['best_checkpoint_step']}")
    if data["restarts"]:
        lines.append(f"restarts of processes: {data['restarts']}")
    return [*lines, *data["reason"].splitlines()]


def incomparable(runs: Sequence[Run]) -> list[str]:
    """Returns lines that say why numbers of these runs, or of different steps of one run, do not measure the same."""
    keys = find_differing_keys([run.config for run in runs])
    lines = []
    if own := [key for key in keys if key == "task" or key.startswith("loss.")]:
        lines.append(
            f"losses do not compare: {_listed(own)} not the same in all runs, so they measure different things"
        )
    if own := [key for key in keys if key in _VALIDATION]:
        lines.append(f"validations do not compare: {_listed(own)} not the same in all runs")
    if moving := [run.name for run in runs if moves(run.config)]:
        names = ", ".join(moving[:_SHOWN]) + (", ..." if len(moving) > _SHOWN else "")
        lines.append(f"losses of different steps measure different things, as lambda changes during the run: {names}")
    return lines


def _listed(keys: Sequence[str]) -> str:
    shown = ", ".join(keys[:_SHOWN]) + (f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else "")
    return f"{shown} {'is' if len(keys) == 1 else 'are'}"


def moves(config: Mapping[str, Any]) -> bool:
    """Returns whether the target of the loss depends on the step. `config` is by dotted key."""
    start, end, parts = (config.get(f"loss.{key}") for key in ("lambda_start", "lambda_end", "lambda_parts"))
    return bool(parts) or start != end


def rows(runs: Sequence[Run]) -> list[list[str]]:
    """Returns a table: headings, then a row for each run. The settings that differ follow the numbers. There is a
    column of members if a run is an ensemble, and one of the best checkpoint's value if a metric other than the loss
    chooses it in any run."""
    keys = find_differing_keys([run.config for run in runs])
    more = []
    if any(run.members for run in runs):
        more.append((MEMBERS, _members))
    if any(run.metric != LOSS for run in runs):
        more.append((METRIC, _metric))
    headings = [*COLUMNS, *(heading for heading, _ in more), *keys]
    return [headings, *([*_numbers(run), *(cell(run) for _, cell in more), *setting_texts(run, keys)] for run in runs)]


def _metric(run: Run) -> str:
    """Formats the value of the best checkpoint if a metric other than the loss chooses it."""
    best = run.best_checkpoint
    return "" if best is None or run.metric == LOSS else f"{run.metric} {in_digits(best[1])} at {best[0]}"


def _numbers(run: Run) -> list[str]:
    """Formats the cells of a run for the columns in COLUMNS."""
    data = as_data(run, ())
    return [
        data["run"],
        data["state"] or "",
        f"{data['step']}/{data['steps']}",
        _loss(data["best_validation_loss"]),
        "" if data["best_validation_step"] is None else str(data["best_validation_step"]),
        _loss(run.last_loss),
        f"{data['samples_per_second']:,.0f}",
        duration(data["seconds"]),
        moment(data["last_step_time"]),
        "" if data["eta_seconds"] is None else duration(data["eta_seconds"]),
    ]


def duration(seconds: float) -> str:
    """Formats seconds as hours, minutes and seconds, such as 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def moment(time: float | None) -> str:
    """Formats a time, in seconds since 1970, as local date and time. Returns an empty text for None."""
    return "" if time is None else datetime.fromtimestamp(time).astimezone().isoformat(" ", "seconds")[:19]


def _members(run: Run) -> str:
    best = run.best_member
    return "" if not run.members else f"{len(run.members)}" + ("" if best is None else f", best {best.member}")


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _loss(value: float | None) -> str:
    return "" if value is None else in_digits(value)


def setting_texts(run: Run, keys: Sequence[str]) -> list[str]:
    """Formats the values of these settings of a run. A setting that the run does not have becomes an empty text."""
    return [json.dumps(run.config[key]).strip('"') if key in run.config else "" for key in keys]
