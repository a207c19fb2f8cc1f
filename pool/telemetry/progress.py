"""The run on the user's screen: one live line on a terminal, a plain line now and then otherwise."""

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

from loader.command_line.streams import give_up_stdout
from pool.metrics.digits import in_digits
from pool.metrics.medians import median_of
from pool.protocol.messages import RunReport, Shares
from pool.run_folder.access import shown

PLAIN_SECONDS = 5.0
LIVE_PER_SECOND = 1.0
BAR_WIDTH = 20
WORTH_SHOWING = 0.05  # of the workers' time
WIDTH_FOR_BAR = 120
LEAST_NEEDED = ("lr", "epoch", "bound", "metrics", "validation", "loss", "samples/s", "ETA")  # left out first to last


class ProgressLine:
    """Shows reports of a run; `say` puts a line of text above them.

    If the output can't be written (terminal closed, pipe closed, disk full), the run goes on without it.
    """

    def __init__(self) -> None:
        self._seen = True
        self._console = Console(stderr=False, highlight=False, soft_wrap=True)
        self._live: Progress | None = None
        self._has_bar = False
        self._task = TaskID(0)
        self._next_plain = 0.0
        self._plain = (0, 0)  # what the newest plain line is about
        self._knows_speed = False  # so did the newest plain line

    def say(self, text: str) -> None:
        """A line that stays."""
        with self._while_seen():
            self._console.print(shown(text), markup=False)

    def show(self, report: RunReport) -> None:
        """The newest state of the run; shown at most once a second on a terminal."""
        if self._seen:
            with self._while_seen():
                self._show(report)

    def close(self) -> None:
        if self._live is not None:
            with self._while_seen():
                self._live.stop()
            self._live = None

    @contextmanager
    def _while_seen(self) -> Iterator[None]:
        try:
            yield
        except (OSError, SystemExit):  # rich makes a broken pipe the latter
            self._seen = False
            give_up_stdout()

    def _show(self, report: RunReport) -> None:
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
        elif (self._is_due(report) or report.finished) and _news(report) != self._plain:
            self._knows_speed = report.samples > 0
            self._next_plain = time.monotonic() + PLAIN_SECONDS
            self._plain = _news(report)
            sys.stdout.write(describe(report) + "\n")
            sys.stdout.flush()

    def _is_due(self, report: RunReport) -> bool:
        """Returns whether a plain line is due. The first with a speed, and so an ETA, does not wait behind one
        without."""
        return time.monotonic() >= self._next_plain or (report.samples > 0 and not self._knows_speed)


def describe(report: RunReport, width: int | None = None) -> str:
    """One line: where the run is, how fast, how good, what it waits for, how long it will take.

    What does not fit into `width` is left out, the least needed first.
    """
    rate = report.samples / report.seconds if report.seconds > 0 else 0.0
    parts = {"step": f"step {report.step}/{report.steps}", "epoch": f"epoch {report.epoch}"}
    if rate > 0:
        parts["samples/s"] = f"{_short(rate)} samples/s"
    if not math.isnan(report.loss):
        parts["loss"] = f"loss {_numbers(report.losses)}"
    if not math.isnan(report.validation_loss):
        parts["validation"] = f"validation {_numbers(report.validation_losses)} of step {report.validation_step}"
    if report.validation_metrics:
        parts["metrics"] = "  ".join(f"{metric.name} {_numbers(metric.values)}" for metric in report.validation_metrics)
    parts["lr"] = f"lr {report.learning_rate:.3g}"
    if any(asdict(report.shares).values()):
        parts["bound"] = "bound by " + " ".join(f"{name} {share:.0%}" for name, share in _largest(report.shares))
    if left := eta(report):
        parts["ETA"] = left
    for name in LEAST_NEEDED:
        if width is not None and len("  ".join(parts.values())) > width:
            parts.pop(name, None)
    return "  ".join(parts.values())


def eta(report: RunReport) -> str:
    """How long the rest will take; empty if that is not known, or if nothing is left."""
    left = report.steps - report.step
    if report.samples <= 0 or report.seconds <= 0 or left <= 0 or report.finished:
        return ""
    return f"ETA {_duration(left * report.samples_per_step * report.seconds / report.samples)}"


def _news(report: RunReport) -> tuple[int, int]:
    """Without them the next plain line would say the same again."""
    return report.step, report.validation_step


def _largest(shares: Shares) -> list[tuple[str, float]]:
    """Says what the run is bound by, most first, as far as it matters."""
    ordered = sorted(asdict(shares).items(), key=lambda item: -item[1])
    return [item for item in ordered if item is ordered[0] or item[1] >= WORTH_SHOWING]


def _numbers(of_members: Sequence[float]) -> str:
    """One number, or of several members the lowest, the median and the highest."""
    known = [value for value in of_members if not math.isnan(value)]
    if len(of_members) == 1 or not known:
        return in_digits(median_of(of_members))
    return f"{in_digits(min(known))} / {in_digits(median_of(known))} / {in_digits(max(known))}"


def _short(number: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.2f} {unit}"
    return f"{number:.0f}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
