"""`pool runs`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from pool.commands.arguments import Force, check_new


def register(app: typer.Typer) -> None:
    app.command(name="runs")(runs)


def runs(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="folders of runs")],
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="draw the losses, .png or .svg; needs matplotlib")
    ] = None,
    members: Annotated[
        bool, typer.Option("--members", help="a row for each member of an ensemble, with the settings that differ")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a run")] = False,
    force: Force = False,
) -> None:
    """Compare runs: steps, best validation, newest loss, speed, time spent on steps, and the settings that differ.

    Of an ensemble the best validation is that of its best member, and the newest loss the median. Reads the folders
    alone; the runs may go on meanwhile.
    """
    from pool.commands.showing import show
    from pool.config.members import differing
    from pool.runs.plot import check_plot, plot_runs
    from pool.runs.records import read_run
    from pool.runs.table import as_data, rows

    if plot is not None:
        check_plot(plot)
        check_new([plot], force)
    found = [read_run(folder) for folder in folders]
    if members:
        found = [row for run in found for row in (run.members or (run,))]
    if as_json:
        keys = differing([run.config for run in found])
        for run in found:
            sys.stdout.write(json.dumps(as_data(run, keys)) + "\n")
    else:
        show(rows(found))
    if plot is not None:
        plot_runs(found, plot)
