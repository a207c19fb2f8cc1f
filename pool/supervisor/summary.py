"""Writes the last lines of a run: which checkpoint is best, and which commands to type next. Pure."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pool.checkpoint.folder import step_path
from pool.checkpoint.state import BEST, FOLDER, LAST
from pool.metrics.digits import format_value
from pool.metrics.layout import AVERAGE, LOSS
from pool.protocol.messages import RunReport


def closing_lines(
    run_dir: str,
    report: RunReport | None,
    resume: str | None,
    task: str | None,
    suffix: str,
    *,
    members: int = 1,
    averaged: bool = False,
) -> Iterator[str]:
    """Yields the lines that are printed at the end of a run: its checkpoints, and the next commands to type.

    `report`: the run's last report; `resume`: command that resumes the run, None if all steps are done; `task`: name of
    the task for the command that exports, None for a built-in task; `suffix`: of an exported file's name; `members`:
    number of networks; `averaged`: the best checkpoint has averaged weights.
    """
    if report is not None and report.checkpoint >= 0:
        folder = Path(run_dir) / FOLDER
        yield _describe_checkpoints(folder, report)
        link = LAST if report.best_step < 0 else BEST
        options = ["-o", f"{Path(run_dir) / link}{suffix}"]
        if members > 1:
            options += ["--member", "best"]
        if averaged and link == BEST and report.best_metric.startswith(AVERAGE):
            options += ["--ema"]
        if task is not None:
            options += ["--task", task]
        yield f"to export it: {format_command('export', str(folder / link), *options)}"
    if resume is not None:
        yield f"to go on: {resume}"


def format_command(*arguments: str) -> str:
    """Returns a command line of this program, as the user would type it."""
    script = Path(sys.argv[0]).name
    program = ["python", "-m", "pool"] if script == "__main__.py" else ["pool"]
    return shlex.join([*program, *arguments])


def sweep_command(config: Path, options: Sequence[str], changes: Sequence[str]) -> str:
    """Returns the command that resumes a sweep and shows its table."""
    arguments = ["sweep", str(config), *options]
    for change in changes:
        arguments += ["--set", change]
    return format_command(*arguments, "--resume")


def _describe_checkpoints(folder: Path, report: RunReport) -> str:
    """Returns the line with the paths of the best and the newest checkpoint."""
    newest = f"newest checkpoint: {step_path(folder, report.checkpoint)}"
    if report.best_step < 0:
        return newest
    best = step_path(folder, report.best_step)
    name = "" if report.best_metric == LOSS else f"{report.best_metric} "
    value = "" if math.isnan(report.best_value) else f", validation {name}{format_value(report.best_value)}"
    if report.best_step == report.checkpoint:
        return f"best and newest checkpoint: {best}{value}"
    return f"best checkpoint: {best}{value}; {newest.replace(f'{folder}/', '')}"


def describe_unsaved_steps(done: int, saved: int) -> str:
    """Returns a line with the steps that are in no checkpoint, which a resumed run repeats. Empty if there are none.

    `done`: newest completed step; `saved`: step of the newest checkpoint.
    """
    if done <= saved:
        return ""
    if done == saved + 1:
        return f"step {done} is in no checkpoint; --resume does it again"
    return f"steps {saved + 1} to {done} are in no checkpoint; --resume does them again"
