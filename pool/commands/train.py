"""The command `pool train`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from pool.commands.arguments import AllowDifferentNumerics, Override, Overrides, Resume, TraceFile, parse_overrides

# late imports: every command starts without what it does not use


def register(app: typer.Typer) -> None:
    app.command(name="train")(train)


def train(
    config: Annotated[
        Path,
        typer.Argument(
            metavar="CONFIG.toml", help="settings; `pool settings` lists them all. With --resume a run's folder will do"
        ),
    ],
    overrides: Overrides = None,
    resume: Resume = False,
    override: Override = None,
    allow_different_numerics: AllowDifferentNumerics = False,
    trace: TraceFile = None,
) -> None:
    """Train a network; checkpoints, metrics and logs go into the folder run.dir.

    Example: pool configs stockfish-15.1 -o my.toml, then pool train my.toml --set 'data.train=/data/*.binpack' --set
    run.dir=runs/first

    Ctrl-C finishes the step, writes a checkpoint and stops; a second one stops at once. `pool train --resume
    runs/first` goes on with that run: its own settings hold, with the changes of --set.

    Exit codes: 0 done, 1 failed, 2 command line or config, 65 damaged data, 69 something it names is not there now or
    in use, 71 not enough memory or disk, 75 a process died again and again, 130 or 143 stopped by a signal.
    """
    from pool.config.load import load_config
    from pool.machines.start import refuse_several_machines
    from pool.supervisor.summary import format_command
    from pool.supervisor.train import train as run

    settings = load_config(config, overrides or (), trace=trace)
    changes = parse_overrides(override, resume=resume)
    refuse_several_machines(os.environ)
    code = run(
        settings,
        resume=resume,
        allow_different_numerics=allow_different_numerics,
        changes=changes,
        again=lambda run_dir: format_command("train", "--resume", run_dir),
    )
    raise typer.Exit(code)
