"""Shows the progress of a run on the user's screen: one live line on a terminal, else a plain line every few
seconds."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column

from loader.command_line.streams import discard_stdout
from pool.metrics.digits import format_value
from pool.metrics.medians import median_of
from pool.protocol.messages import RunReport, Shares
from pool.run_folder.access import show_real_paths

PLAIN_SECONDS = 5.0
LIVE_PER_SECOND = 1.0
BAR_WIDTH = 20
WORTH_SHOWING = 0.05  # least share of the workers' time that is shown
WIDTH_FOR_BAR = 120
# parts of a line, in the order in which they are left out
LEAST_NEEDED = ("lr", "epoch", "bound", "metrics", "validation", "loss", "samples/s", "ETA")


class ProgressLine:
    """Shows the state of a run, and lines of text above it.

    If the output can't be written (terminal closed, pipe closed, disk full), the run goes on without it.
    """

    def __init__(self) -> None:
        self._is_visible = True
        self._console = Console(stderr=False, highlight=False, soft_wrap=True)
        self._live: Progress | None = None
        self._has_bar = False
        self._task = TaskID(0)
        self._next_plain = 0.0
        self._last_plain = (0, 0)  # step and validation of the newest plain line
        self._knows_speed = False  # the newest plain line had a speed

    def say(self, text: str) -> None:
        """Prints a line that stays on the screen."""
        with self._guard_output():
            self._console.print(show_real_paths(text), markup=False)

    def show(self, report: RunReport) -> None:
        """Shows the newest state of the run. A terminal is updated at most once a second."""
        if self._is_visible:
            with self._guard_output():
                self._show(report)

    def close(self) -> None:
        """Ends the live line."""
        if self._live is not None:
            with self._guard_output():
                self._live.stop()
            self._live = None

    @contextmanager
    def _guard_output(self) -> Iterator[None]:
        """Gives up the output for good if a write in the `with` fails."""
        try:
            yield
        except (OSError, SystemExit):  # rich makes a broken pipe the latter
            self._is_visible = False
            discard_stdout()

    def _show(self, report: RunReport) -> None:
        """Updates the live line of a terminal, or prints a plain line if one is due."""
        if self._console.is_terminal:
            if self._live is None:
                self._has_bar = self._console.width >= WIDTH_FOR_BAR
                bar = [BarColumn(bar_width=BAR_WIDTH)] if self._has_bar else []
                column = TextColumn("{task.description}", table_column=Column(no_wrap=True))
                self._live = Progress(*bar, column, console=self._console, refresh_per_second=LIVE_PER_SECOND)
                self._task = self._live.add_task("", total=report.steps)
                self._live.start()
            text = describe(report, self._console.width - (BAR_WIDTH + 1 if self._has_bar else 0))
            self._live.update(self._task, completed=report.step, description=text)
        elif (self._is_due(report) or report.finished) and _progress_key(report) != self._last_plain:
            self._knows_speed = report.samples > 0
            self._next_plain = time.monotonic() + PLAIN_SECONDS
            self._last_plain = _progress_key(report)
            sys.stdout.write(describe(report) + "\n")
            sys.stdout.flush()

    def _is_due(self, report: RunReport) -> bool:
        """Tells whether a plain line is due.

        The first line with a speed, and so with an ETA, is due at once after one without.
        """
        return time.monotonic() >= self._next_plain or (report.samples > 0 and not self._knows_speed)


def describe(report: RunReport, width: int | None = None) -> str:
    """Returns the state of a run in one line: step, speed, losses, what limits the speed, remaining time.

    Parts that do not fit into `width` characters are left out, the least needed first.
    """
    rate = report.samples / report.seconds if report.seconds > 0 else 0.0
    parts = {"step": f"step {report.step}/{report.steps}", "epoch": f"epoch {report.epoch}"}
    if rate > 0:
        parts["samples/s"] = f"{_format_number(rate)} samples/s"
    if not math.isnan(report.loss):
        parts["loss"] = f"loss {_format_values(report.losses)}"
    if not math.isnan(report.validation_loss):
        parts["validation"] = f"validation {_format_values(report.validation_losses)} of step {report.validation_step}"
    if report.validation_metrics:
        parts["metrics"] = "  ".join(
            f"{metric.name} {_format_values(metric.values)}" for metric in report.validation_metrics
        )
    parts["lr"] = f"lr {report.learning_rate:.3g}"
    if any(asdict(report.shares).values()):
        parts["bound"] = "bound by " + " ".join(f"{name} {share:.0%}" for name, share in _largest_shares(report.shares))
    if left := format_eta(report):
        parts["ETA"] = left
    for name in LEAST_NEEDED:
        if width is not None and len("  ".join(parts.values())) > width:
            parts.pop(name, None)
    return "  ".join(parts.values())


def format_eta(report: RunReport) -> str:
    """Returns the remaining time, `ETA H:MM:SS`. Empty if it is not known or if no step remains."""
    left = report.steps - report.step
    if report.samples <= 0 or report.seconds <= 0 or left <= 0 or report.finished:
        return ""
    return f"ETA {_format_duration(left * report.samples_per_step * report.seconds / report.samples)}"


def _progress_key(report: RunReport) -> tuple[int, int]:
    """Returns newest step and newest validation. While both are the same, another plain line would repeat the last
    one."""
    return report.step, report.validation_step


def _largest_shares(shares: Shares) -> list[tuple[str, float]]:
    """Returns the activities that take most of the workers' time, the largest share first. Small shares are left
    out."""
    ordered = sorted(asdict(shares).items(), key=lambda item: -item[1])
    return [item for item in ordered if item is ordered[0] or item[1] >= WORTH_SHOWING]


def _format_values(of_members: Sequence[float]) -> str:
    """Formats the members' values of a number: the value of a single member, else the lowest, the median and the
    highest."""
    known = [value for value in of_members if not math.isnan(value)]
    if len(of_members) == 1 or not known:
        return format_value(median_of(of_members))
    return f"{format_value(min(known))} / {format_value(median_of(known))} / {format_value(max(known))}"


def _format_number(number: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.2f} {unit}"
    return f"{number:.0f}"


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
