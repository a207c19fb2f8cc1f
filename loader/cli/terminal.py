"""Output for people, drawn by rich on a terminal and as plain text elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from loader.formats.format import OnProgress

# late imports: a command loads what it uses, so that --help and mistakes are answered at once


@contextmanager
def show_byte_progress(title: str) -> Iterator[OnProgress | None]:
    """Shows a progress bar in bytes on stderr. Yields a function of (bytes done, bytes in all), where 0 in all means
    unknown; yields None unless stderr is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)


class Waiting(Protocol):
    """A source of data that may come late, as a pipe does."""

    def call_while_waiting(self, check: Callable[[], object]) -> None:
        """Sets a function that is called now and then while no data comes. It may raise to end the wait."""


@contextmanager
def show_interruptible_progress(title: str, sources: Sequence[Waiting] = ()) -> Iterator[OnProgress]:
    """Shows progress as `show_byte_progress` does, and ends the command when a signal has arrived, also while it waits
    for data from one of `sources`."""
    from loader.files.interruption import record_stop_signals

    with record_stop_signals() as interruption, show_byte_progress(title) as progress:
        for source in sources:
            source.call_while_waiting(interruption.check)

        def update(done: int, total: int) -> None:
            interruption.check()
            if progress is not None:
                progress(done, total)

        yield update


@contextmanager
def show_sample_count(title: str) -> Iterator[Callable[[int], object] | None]:
    """Shows a count of samples and their speed on stderr, where the total is not known. Yields a function of the count;
    yields None unless stderr is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    start = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title)

        def update(samples: int) -> None:
            rate = samples / max(time.monotonic() - start, 1e-9)
            bar.update(task, description=f"{title}: {samples:,} samples, {rate:,.0f}/s")

        yield update


def print_table(title: str, rows: list[tuple[str, str]]) -> None:
    """Writes names and values to standard output, one pair a line."""
    if not sys.stdout.isatty():
        width = max(len(name) for name, _ in rows)
        lines = [title, *(f"  {name:<{width}}  {value}" for name, value in rows)]
        sys.stdout.write("\n".join(lines) + "\n")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("", "", title=title, title_justify="left", show_header=False)
    for name, value in rows:
        table.add_row(name, value)
    Console().print(table)
