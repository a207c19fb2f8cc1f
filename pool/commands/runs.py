"""The commands `pool runs`, `pool status` and `pool clean`, which read the folders of runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from loader.command_line.json_line import json_line
from pool.errors import ConfigError

# late imports: a command loads what it uses, so that --help and mistakes are answered at once

STATE_CODES = {"finished": 0, "crashed": 1, "running": 3, "stopped": 4}

# late imports: every command starts without what it does not use


def register(app: typer.Typer) -> None:
    app.command(name="runs")(runs)
    app.command(name="status")(status)
    app.command(name="clean")(clean)


def runs(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="folders of runs, or folders that hold some")],
    members: Annotated[
        bool, typer.Option("--members", help="a row for each member of an ensemble, with the settings that differ")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a run")] = False,
) -> None:
    """Compare runs: state, steps, best validation, newest loss, speed, time spent on steps, and the settings that
    differ.

    A run is running, finished, stopped by a signal, or crashed: killed, or ended by an error. Of an ensemble the best
    validation is that of its best member, and the newest loss the median. Reads the folders alone; the runs may go on
    meanwhile. Losses that do not measure the same are named below the table.
    """
    from pool.analysis.records import read_runs
    from pool.analysis.table import find_incomparable, runs_table, summarize_run
    from pool.commands.tables import print_table
    from pool.config.member_settings import find_differing_keys

    all_runs = read_runs(folders, _warn)
    if members:
        all_runs = [row for run in all_runs for row in (run.members or (run,))]
    if as_json:
        keys = find_differing_keys([run.config for run in all_runs])
        for run in all_runs:
            sys.stdout.write(json_line(summarize_run(run, keys)))
    else:
        print_table(runs_table(all_runs))
    write_line = _warn if as_json else _print_line
    for line in find_incomparable(all_runs):
        write_line(line)


def status(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="the folder of a run")],
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object")] = False,
) -> None:
    """Show the state of a run: how far it is, or how it ended. Reads its folder alone.

    Exit codes: 0 finished, 3 running, 4 stopped by a signal, 1 crashed (killed, or ended by an error), 2 no run's
    folder. Example: until pool status runs/first > status.txt; do sleep 60; done
    """
    from pool.analysis.records import read_run
    from pool.analysis.table import format_status, summarize_status
    from pool.telemetry.status import LOCK

    run = read_run(folder)
    if run.state is None:
        raise ConfigError(f"{folder / LOCK}: may not be opened, and without it nothing says whether the run goes on")
    if as_json:
        sys.stdout.write(json_line(summarize_status(run)))
    else:
        sys.stdout.writelines(f"{line}\n" for line in format_status(run))
    raise typer.Exit(STATE_CODES[run.state])


def clean(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN", help="folders of runs, or folders that hold some")],
    keep: Annotated[int, typer.Option("--keep", min=1, metavar="N", help="newest checkpoints that stay")] = 1,
    every: Annotated[
        int | None,
        typer.Option(
            "--every", min=0, metavar="N", help="those of each N steps stay, 0: none; else train.keep_every of the run"
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="remove them; without, it is only said what would go")] = False,
) -> None:
    """Remove checkpoints of runs that have ended; without --yes only show which.

    The newest checkpoints, the best, and those that the run's config keeps (train.keep_every) stay, and so does one
    whose numbered network has still to be exported. Checkpoints are read first: the newest good one, which --resume
    takes, always stays. Damaged ones (damaged-step-N) go. A run that goes on is left alone, with exit code 1: it thins
    its own (train.keep_checkpoints).
    """
    from pool.analysis.clean import clean_run
    from pool.analysis.records import find_run_folders

    is_any_running = False
    total = 0
    for folder in find_run_folders(folders):
        freed = clean_run(folder, keep, every, _print_line, remove=yes)
        if freed is None:
            is_any_running = True
        else:
            total += freed
    result = "freed" if yes else "would be freed: add --yes to remove them"
    _print_line(f"{total / 1e6:,.1f} MB {result}")
    if is_any_running:
        raise typer.Exit(1)


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _warn(line: str) -> None:
    sys.stderr.write(f"pool: {line}\n")
