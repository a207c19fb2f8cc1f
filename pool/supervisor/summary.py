"""Writes the last lines of a run: which checkpoint is best, and which commands to type next. Pure."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pool.checkpoint.folder import step_path
from pool.checkpoint.state import BEST, FOLDER, LAST
from pool.metrics.digits import in_digits
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
    """Yields the last lines of a run.

    `report`: the run's last; `resume`: command that resumes the run, None if all steps are done; `task`: to be named in
    the command that exports, None for a built-in task; `suffix`: of an exported file's name; `members`: number of
    networks; `averaged`: the best checkpoint has averaged weights.
    """
    if report is not None and report.checkpoint >= 0:
        folder = Path(run_dir) / FOLDER
        yield _checkpoints(folder, report)
        link = LAST if report.best_step < 0 else BEST
        ema = averaged and link == BEST and report.best_metric.startswith(AVERAGE)
        naming = [*([] if members == 1 else ["--member", "best"]), *(["--ema"] if ema else [])]
        naming += [] if task is None else ["--task", task]
        yield f"to export it: {command('export', str(folder / link), '-o', f'{Path(run_dir) / link}{suffix}', *naming)}"
    if resume is not None:
        yield f"to go on: {resume}"


def command(*words: str) -> str:
    """Returns a command line of this program, as the user would type it."""
    called = Path(sys.argv[0]).name
    program = ["python", "-m", "pool"] if called == "__main__.py" else ["pool"]
    return shlex.join([*program, *words])


def sweep_command(config: Path, options: Sequence[str], changes: Sequence[str]) -> str:
    """Returns the command that resumes a sweep and shows its table."""
    sets = [word for change in changes for word in ("--set", change)]
    return command("sweep", str(config), *options, *sets, "--resume")


def _checkpoints(folder: Path, report: RunReport) -> str:
    """Returns the line about the best and the newest checkpoint."""
    newest = f"newest checkpoint: {step_path(folder, report.checkpoint)}"
    if report.best_step < 0:
        return newest
    best = step_path(folder, report.best_step)
    name = "" if report.best_metric == LOSS else f"{report.best_metric} "
    value = "" if math.isnan(report.best_value) else f", validation {name}{in_digits(report.best_value)}"
    if report.best_step == report.checkpoint:
        return f"best and newest checkpoint: {best}{value}"
    return f"best checkpoint: {best}{value}; {newest.replace(f'{folder}/', '')}"


def describe_unsaved_steps(done: int, saved: int) -> str:
    """Returns a line with the steps that a resumed run does again, or an empty string if there are none.

    `done`: newest completed step; `saved`: step of the newest checkpoint.
    """
    if done <= saved:
        return ""
    if done == saved + 1:
        return f"step {done} is in no checkpoint; --resume does it again"
    return f"steps {saved + 1} to {done} are in no checkpoint; --resume does them again"
