"""Several runs side by side: as a table, as plain data."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from pool.config.members import differing
from pool.metrics.digits import in_digits
from pool.metrics.layout import LOSS
from pool.runs.records import Run

METRIC = "best checkpoint"
COLUMNS = ("run", "steps", "best validation", "at step", "last loss", "samples/s", "time")
MEMBERS = "members"  # a column more, if there is an ensemble


def as_data(run: Run, keys: Sequence[str]) -> dict[str, Any]:
    """One run, or one member; `keys`: of its config. What is not known, or no finite number, is None. The last loss of
    an ensemble is its members' median."""
    best, best_member, by_metric = run.best, run.best_member, run.best_checkpoint
    return {
        "run": run.name,
        "step": run.steps[-1]["step"] if run.steps else 0,
        "steps": run.config.get("train.steps"),
        "best_validation_loss": best[1] if best else None,
        "best_validation_step": best[0] if best else None,
        "best_metric": run.metric,
        "best_checkpoint_value": by_metric[1] if by_metric else None,
        "best_checkpoint_step": by_metric[0] if by_metric else None,
        "last_loss": last if (last := run.last_loss) is not None and math.isfinite(last) else None,
        "samples_per_second": run.samples_per_second,
        "seconds": run.seconds,
        "member": run.member,
        "members": len(run.members) or None,
        "best_member": None if best_member is None else best_member.member,
        "config": {key: run.config.get(key) for key in keys},
    }


def rows(runs: Sequence[Run]) -> list[list[str]]:
    """Headings, then a row a run; the keys that differ stand behind the numbers. There are columns for members if
    one is an ensemble, and for the best checkpoint's number if another one than the loss chooses it in any of them."""
    keys = differing([run.config for run in runs])
    more = []
    if any(run.members for run in runs):
        more.append((MEMBERS, _members))
    if any(run.metric != LOSS for run in runs):
        more.append((METRIC, _metric))
    headings = [*COLUMNS, *(heading for heading, _ in more), *keys]
    return [headings, *([*_numbers(run), *(cell(run) for _, cell in more), *_values(run, keys)] for run in runs)]


def plain(table: Sequence[Sequence[str]]) -> str:
    """Columns of text, the first to the left and the others to the right."""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = []
    for row in table:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def _metric(run: Run) -> str:
    best = run.best_checkpoint
    return "" if best is None or run.metric == LOSS else f"{run.metric} {in_digits(best[1])} at {best[0]}"


def _numbers(run: Run) -> list[str]:
    data = as_data(run, ())
    minutes, seconds = divmod(round(data["seconds"]), 60)
    return [
        data["run"],
        f"{data['step']}/{data['steps']}",
        _loss(data["best_validation_loss"]),
        "" if data["best_validation_step"] is None else str(data["best_validation_step"]),
        _loss(run.last_loss),
        f"{data['samples_per_second']:,.0f}",
        f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}",
    ]


def _members(run: Run) -> str:
    best = run.best_member
    return "" if not run.members else f"{len(run.members)}" + ("" if best is None else f", best {best.member}")


def _loss(value: float | None) -> str:
    return "" if value is None else in_digits(value)


def _values(run: Run, keys: Sequence[str]) -> list[str]:
    return [json.dumps(run.config[key]).strip('"') if key in run.config else "" for key in keys]
