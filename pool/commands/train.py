"""`pool train`."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pool.commands.arguments import AllowDifferentNumerics, Overrides, Resume, TraceFile
from pool.errors import ConfigError

if TYPE_CHECKING:
    from pool.config.changes import Change

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
    allow_different_numerics: AllowDifferentNumerics = False,
    override: Annotated[
        list[str] | None,
        typer.Option(
            "--override",
            metavar="KEY=VALUE",
            help="with --resume: change what the checkpoint holds of the optimizer or the schedule, such as "
            "optimizer.args.lr=5e-4, from this step on; may be given several times",
        ),
    ] = None,
    trace: TraceFile = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="show what the run would be and take: samples, devices, disk, memory; start nothing"
        ),
    ] = False,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="with --check: do some steps in a temporary folder with one device and with all, and say how fast "
            "each is and what bounds it",
        ),
    ] = False,
) -> None:
    """Train a network; checkpoints, metrics and logs go into the folder run.dir.

    Ctrl-C finishes the step, writes a checkpoint and stops; a second one stops at once. Exit codes: 0 done, 1 failed, 2
    command line or config, 65 damaged data, 69 something it names is not there now or in use, 71 not enough memory or
    disk, 75 a process died again and again, 130 or 143 stopped by a signal.

    `pool train --resume runs/first` goes on with that run: its own settings hold, with the changes of --set. Example:
    pool configs stockfish-15.1 -o my.toml, then pool train my.toml --set 'data.train=/data/*.binpack' --set
    run.dir=runs/first
    """
    from pool.config.load import load_config
    from pool.supervisor.prepare import preparation
    from pool.supervisor.prepare.overrides import parse
    from pool.supervisor.summary import command
    from pool.supervisor.train import train as run

    settings = load_config(config, overrides or (), trace=trace)
    changes = [parse(text) for text in override or ()]
    if changes and not resume:
        raise ConfigError("--override: changes a run that is resumed; without --resume use --set")
    if measure and not check:
        raise ConfigError("--measure: goes with --check")
    if check:
        devices = preparation.check(settings, print)
        if measure:
            _measure(config, overrides or (), devices)
        return
    code = run(
        settings,
        resume=resume,
        allow_different_numerics=allow_different_numerics,
        changes=changes,
        again=lambda run_dir: command("train", "--resume", run_dir),
    )
    raise typer.Exit(code)


def _measure(config: Path, overrides: Sequence[str | Change], devices: Sequence[str]) -> None:
    """Prints how fast the run is with one of its devices and with all."""
    # late: pydantic and zmq, which `pool --help` needs not
    from pool.analysis.records import read_run
    from pool.analysis.speed import STEPS, changes_for, device_sets, lines, speed_of
    from pool.config.load import load_config
    from pool.supervisor.train import train as run

    speeds = []
    for chosen in device_sets(devices):
        sys.stderr.write(f"measuring: {STEPS} steps on {', '.join(chosen)}\n")
        with tempfile.TemporaryDirectory(prefix="pool-measure-") as folder, _no_output():
            settings = load_config(config, [*overrides, *changes_for(chosen, str(Path(folder) / "run"))])
            if code := run(settings, resume=False):
                raise typer.Exit(code)
            speeds.append(speed_of(chosen, read_run(settings.run_dir).steps))
    sys.stdout.write("\n".join(["", "Measured", *lines(speeds), ""]))


@contextlib.contextmanager
def _no_output() -> Iterator[None]:
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        yield
