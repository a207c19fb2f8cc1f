"""`pool runs`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command(name="runs")(runs)


def runs(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="folders of runs")],
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="draw the losses, .png or .svg; needs matplotlib")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a run")] = False,
) -> None:
    """Compare runs: steps, best validation, newest loss, speed, time spent on steps, and the settings that differ.

    Reads the folders alone; the runs may go on meanwhile.
    """
    from pool.runs.plot import check_plot, plot_runs
    from pool.runs.records import differing, read_run
    from pool.runs.table import as_data, plain, rows

    if plot is not None:
        check_plot(plot)
    found = [read_run(folder) for folder in folders]
    if as_json:
        for run in found:
            sys.stdout.write(json.dumps(as_data(run, differing(found))) + "\n")
    elif sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Column, Table
        from rich.text import Text

        headings, *lines = rows(found)
        table = Table(*(Column(Text(name), justify="left" if name == "run" else "right") for name in headings))
        for line in lines:
            table.add_row(*map(Text, line))
        Console(highlight=False).print(table)
    else:
        sys.stdout.write(plain(rows(found)))
    if plot is not None:
        plot_runs(found, plot)
