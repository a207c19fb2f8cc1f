"""The command `pool check`."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pool.commands.arguments import Overrides
from pool.errors import ConfigError

if TYPE_CHECKING:
    from pool.analysis.speed import Speed
    from pool.config.changes import Change

# late imports: every command starts without what it does not use


def register(app: typer.Typer) -> None:
    app.command(name="check")(check)


def check(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="a config, a recipe, or the folder of a run")],
    overrides: Overrides = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="do some steps in a temporary folder with one device and with all, and say how fast each is and what "
            "bounds it",
        ),
    ] = False,
    machines: Annotated[
        int | None,
        typer.Option("--machines", metavar="N", help="show what a step sends if so many machines train it"),
    ] = None,
) -> None:
    """Show what a run would be and take: samples, devices, disk, memory; start nothing.

    Of a recipe, a config with [[stage]] tables, it shows each stage, and whether its model is that of the stage which
    it starts from.
    """
    from pool.config.load import load_config, read_toml
    from pool.stages.recipe import is_recipe, parse_recipe
    from pool.stages.train import check_stages
    from pool.supervisor.prepare import preparation

    tree = {} if config.is_dir() else read_toml(config)
    if is_recipe(tree):
        for option, is_given in {"--measure": measure, "--machines": machines is not None}.items():
            if is_given:
                raise ConfigError(f"{option}: {config} is a recipe, of several runs; name the folder of one of them")
        check_stages(parse_recipe(tree, overrides or (), str(config)), print)
        return
    settings = load_config(config, overrides or ())
    devices = preparation.check_run(settings, print, machines or 1).planned.devices
    if measure:
        _measure(config, overrides or (), devices)


def _measure(config: Path, overrides: Sequence[str | Change], devices: Sequence[str]) -> None:
    """Measures the run's speed with one of its devices and with all, and prints it."""
    from pool.analysis.speed import device_sets, format_speeds

    speeds = [_measure_speed(config, overrides, device_set) for device_set in device_sets(devices)]
    sys.stdout.write("\n".join(["", "Measured", *format_speeds(speeds), ""]))


def _measure_speed(config: Path, overrides: Sequence[str | Change], devices: Sequence[str]) -> Speed:
    """Trains some steps with these devices in a temporary folder, and returns their speed. Raises PoolError, or
    typer.Exit if the run fails."""
    # late: pydantic and zmq, which `pool --help` needs not
    from pool.analysis.records import read_run
    from pool.analysis.speed import STEPS, compute_speed, short_run_changes
    from pool.config.load import load_config
    from pool.supervisor.train import train as run

    sys.stderr.write(f"measuring: {STEPS} steps on {', '.join(devices)}\n")
    with tempfile.TemporaryDirectory(prefix="pool-measure-") as folder, _no_output():
        settings = load_config(config, [*overrides, *short_run_changes(devices, str(Path(folder) / "run"))])
        code = run(settings, resume=False)
        if code:
            raise typer.Exit(code)
        return compute_speed(devices, read_run(settings.run_dir).steps)


@contextlib.contextmanager
def _no_output() -> Iterator[None]:
    """Discards what is written to standard output."""
    with Path(os.devnull).open("w", encoding="utf-8") as null, contextlib.redirect_stdout(null):
        yield
