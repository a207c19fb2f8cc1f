"""The command `pool machines`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pool.commands.arguments import AllowDifferentNumerics, Override, Overrides, Resume, TraceFile, parse_overrides
from pool.errors import ConfigError

if TYPE_CHECKING:
    from pool.config.tree import Config
    from pool.machines.rank import MachineRank

# late imports: every command starts without what it does not use


def register(app: typer.Typer) -> None:
    app.command(name="machines")(train_on_machines)


def _write_key(file: Path | None) -> None:
    """Writes a new key to a file and ends the command. Does nothing if there is no file."""
    if file is None:
        return
    from pool.machines.key import write_key

    write_key(file)
    raise typer.Exit


def train_on_machines(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG.toml", help="settings, the same on each; with --resume a run's folder")
    ],
    machines: Annotated[
        int | None, typer.Option("--machines", metavar="N", help="number of machines that train it")
    ] = None,
    machine: Annotated[
        int | None, typer.Option("--machine", metavar="I", help="which one this is: 0, the first, to N - 1")
    ] = None,
    first: Annotated[
        str | None,
        typer.Option(
            "--first",
            metavar="HOST:PORT",
            help="where the first machine listens, as the others reach it; the port may be left out; an IPv6 address "
            "is written [ADDRESS]:PORT",
        ),
    ] = None,
    key: Annotated[Path | None, typer.Option("--key", metavar="FILE", help="the run's key, made by --new-key")] = None,
    new_key: Annotated[  # noqa: ARG001 (its callback makes the key)
        Path | None,
        typer.Option(
            "--new-key",
            metavar="FILE",
            is_eager=True,
            callback=_write_key,
            help="make the key, and nothing else: a new file that nobody else can read; copy it to each machine. Who "
            "has it can take part, and nobody else can read what the machines send",
        ),
    ] = None,
    local: Annotated[bool, typer.Option("--local", help="with --machines: all of them on this one, to try")] = False,
    overrides: Overrides = None,
    resume: Resume = False,
    override: Override = None,
    allow_different_numerics: AllowDifferentNumerics = False,
    interface: Annotated[
        str | None,
        typer.Option(
            "--interface",
            metavar="NAME",
            help="network interface at which the others reach this machine; else the one that leads to the first",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=1,
            max=65534,
            metavar="N",
            help="the others reach this machine at ports N and N + 1, as a firewall may need it; else at ports that "
            "are free, machine 0 at that of --first",
        ),
    ] = None,
    trace: TraceFile = None,
) -> None:
    """Train a network on several machines: this command on each, with the same config and key.

    The weights are those of a run on one machine. Slurm, Kubernetes and torchrun say all but the key. A machine but the
    first one has its own run folder, run.dir-machine-I. Exit codes are those of pool train, and 75 if another machine
    was stopped or lost. Example: pool machines --new-key run.key, then pool machines my.toml --machines 2 --machine 0
    --first a --key run.key on a, and with --machine 1 on the other.
    """
    from pool.config.load import load_config
    from pool.machines.local import run_all
    from pool.machines.start import MachineOptions, join_machines
    from pool.supervisor.train import train as run

    options = MachineOptions(machines, machine, first, interface, key, port)
    settings = load_config(config, overrides or (), trace=trace)
    changes = parse_overrides(override, resume=resume)
    if local:
        if machines is None or options != MachineOptions(machines=machines):
            raise ConfigError(
                "--local: goes with --machines, and with none of --machine, --first, --interface, --port, --key"
            )
        raise typer.Exit(run_all(machines, _remove_options(sys.argv[2:], "--local", "--machines")))
    group = join_machines(options, os.environ)
    code = run(
        _settings_of_machine(settings, group.rank, is_config_file=not config.is_dir()),
        resume=resume,
        allow_different_numerics=allow_different_numerics,
        changes=changes,
        group=group,
    )
    raise typer.Exit(code)


def _settings_of_machine(settings: Config, rank: MachineRank, *, is_config_file: bool) -> Config:
    """Returns the settings for one of several machines, which exchange gradients through host memory. All but the first
    export nothing. With a config file they also have a run folder of their own, as the machines may share one disk.
    Raises ConfigError for an exchange or a number of batches that several machines can't have."""
    from pool.machines.rank import MAX_SHARE_BATCHES, MAX_SHARE_LOSSES

    exchange, batches, machine = settings.pool.exchange, settings.train.batches_per_step, rank.machine
    if exchange not in ("auto", "host"):
        raise ConfigError(f"pool.exchange: {exchange}; for several machines set it to host")
    max_batches = min(MAX_SHARE_BATCHES, MAX_SHARE_LOSSES // len(settings.members)) * rank.num_machines
    if batches > max_batches:
        raise ConfigError(
            f"train.batches_per_step: {batches}; {rank.num_machines} machines compute {max_batches} at most"
        )
    pool = settings.pool.model_copy(update={"exchange": "host"})
    run = settings.run
    train = settings.train
    if machine:  # only the first machine exports networks
        train = train.model_copy(update={"export_every": 0, "on_export": (), "export_weights": None})
    if machine and is_config_file:
        run = run.model_copy(update={"dir": f"{run.dir}-machine-{machine}"})
    return settings.model_copy(update={"pool": pool, "run": run, "train": train})


def _remove_options(arguments: Sequence[str], flag: str, option: str) -> list[str]:
    """Returns the command line's arguments without `flag`, and without `option` and its value."""
    remaining: list[str] = []
    is_value = False
    for argument in arguments:
        if is_value:
            is_value = False
        elif argument == option:
            is_value = True
        elif argument != flag and not argument.startswith(f"{option}="):
            remaining.append(argument)
    return remaining
