"""Progress of commands that make positions or play games, on stderr. A terminal shows a bar, anything else gets a line
every 10 seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

# late imports: a command loads what it uses, so that --help and mistakes are answered at once

LINE_SECONDS = 10.0


class RateMeter:
    """Measures the rate of a command in positions a second (or in the noun `what` a second), from the first call of
    `update` on."""

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic, what: str = "positions") -> None:
        self._total = total
        self._what = what
        self._clock = clock
        self._first: tuple[float, int] | None = None

    def update(self, positions: int, more: str = "") -> str:
        """Describes the progress as text: positions done, rate, remaining time. `more` is added after the number of
        positions."""
        now = self._clock()
        if self._first is None:
            self._first = now, positions
        seconds, made = now - self._first[0], positions - self._first[1]
        counts = f"{positions:,} of {self._total:,} {self._what}" + (f", {more}" if more else "")
        if seconds <= 0 or made <= 0:
            return counts
        rate = made / seconds
        return (
            f"{counts}, {rate:,.{0 if rate >= 10 else 1}f}/s, {format_duration((self._total - positions) / rate)} left"
        )


def format_duration(seconds: float) -> str:
    """Formats seconds as hours, minutes and seconds, as 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,}:{minutes:02}:{rest:02}"


class LineReport:
    """A progress report that writes a line every LINE_SECONDS."""

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic, what: str = "positions") -> None:
        self._rate = RateMeter(total, clock, what)
        self._clock = clock
        self._next = clock() + LINE_SECONDS

    def progress(self, positions: int, more: str = "") -> None:
        """Writes the progress, if LINE_SECONDS have passed since the last line."""
        text = self._rate.update(positions, more)
        if self._clock() >= self._next:
            self._next = self._clock() + LINE_SECONDS
            self.notify(text)

    def notify(self, line: str) -> None:
        """Writes a message."""
        sys.stderr.write(f"loader: {line}\n")


class BarReport:
    """A progress bar that is redrawn in place. Messages appear above it."""

    def __init__(self, bar: Progress, total: int, what: str) -> None:
        self._bar = bar
        self._rate = RateMeter(total, what=what)
        self._task = bar.add_task("", total=total)

    def progress(self, positions: int, more: str = "") -> None:
        """Redraws the bar."""
        self._bar.update(self._task, completed=positions, description=self._rate.update(positions, more))

    def notify(self, line: str) -> None:
        """Writes a message above the bar."""
        self._bar.console.print(f"loader: {line}", markup=False, highlight=False)


@contextmanager
def position_progress(total: int, what: str = "positions") -> Iterator[LineReport | BarReport]:
    """Yields the progress report of a command that makes `total` positions (or `what`). It is a bar on a terminal, else
    lines."""
    if not sys.stderr.isatty():
        yield LineReport(total, what=what)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(), TextColumn("{task.percentage:.0f} %"), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield BarReport(bar, total, what)
