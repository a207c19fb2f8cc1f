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
    from pool.config.tree import Config
    from pool.machines.place import MachinePlace
    from pool.stages.recipe import Recipe

# late imports: every command starts without what it does not use


def register(app: typer.Typer) -> None:
    app.command(name="train")(train)
    app.command(name="machines-key")(machines_key)


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
    list_stages: Annotated[
        bool, typer.Option("--list", help="of a recipe: show its stages, what is done and what is to do; start nothing")
    ] = False,
    until: Annotated[
        str | None, typer.Option("--until", metavar="STAGE", help="of a recipe: end when this stage is done")
    ] = None,
    rerun: Annotated[
        str | None,
        typer.Option(
            "--rerun",
            metavar="STAGE",
            help="of a recipe: train this stage, and those that follow from it, though they are done; what they left "
            "keeps another name",
        ),
    ] = None,
    machines: Annotated[
        int | None,
        typer.Option("--machines", metavar="N", help="number of machines that train it"),
    ] = None,
    machine: Annotated[
        int | None,
        typer.Option("--machine", metavar="I", help="which one this is: 0, the first, to N - 1"),
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
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="FILE", help="the run's key, made by `pool machines-key`"),
    ] = None,
    local: Annotated[
        bool,
        typer.Option("--local", help="with --machines: all of them on this one, to try"),
    ] = False,
) -> None:
    """Train a network; checkpoints, metrics and logs go into the folder run.dir.

    Ctrl-C finishes the step, writes a checkpoint and stops; a second one stops at once. Exit codes: 0 done, 1 failed, 2
    command line or config, 65 damaged data, 69 something it names is not there now or in use, 71 not enough memory or
    disk, 75 a process died again and again, or another machine was stopped or lost, 130 or 143 stopped by a signal.

    `pool train --resume runs/first` goes on with that run: its own settings hold, with the changes of --set. Example:
    pool configs stockfish-15.1 -o my.toml, then pool train my.toml --set 'data.train=/data/*.binpack' --set
    run.dir=runs/first

    On several machines each is given the same config and key. Slurm, Kubernetes and torchrun say the rest. A machine
    but the first one has its own run folder, run.dir-machine-I. The weights are those of a run on one machine.

    A recipe, a config with [[stage]] tables, is trained stage by stage. Each is a run in a folder of run.dir that is
    named by all its result depends on. Given again, the command goes on with what is not done, --resume or not.
    """
    from pool.config.load import load_config, read_toml
    from pool.machines.local import run_all
    from pool.machines.start import Given, join
    from pool.stages.recipe import is_recipe, parse_recipe
    from pool.supervisor.prepare import preparation
    from pool.supervisor.prepare.overrides import parse
    from pool.supervisor.summary import command
    from pool.supervisor.train import train as run

    place = Given(machines, machine, first, interface, key, port)
    tree = {} if config.is_dir() else read_toml(config)
    if is_recipe(tree):
        of_one_run = {"--override": override, "--trace": trace, "--measure": measure}
        of_one_run |= {"--machines, --key and the like": place.is_for_several or local}
        if name := next((option for option, value in of_one_run.items() if value), None):
            raise ConfigError(f"{name}: {config} is a recipe, of several runs; name the folder of one of them")
        recipe = parse_recipe(tree, overrides or (), str(config))
        _train_recipe(recipe, config, overrides or (), list_stages, check, until, rerun, allow_different_numerics)
        return
    for option, given in {"--list": list_stages, "--until": until, "--rerun": rerun}.items():
        if given:
            raise ConfigError(f"{option}: {config} is no recipe: it has no [[stage]] tables")
    settings = load_config(config, overrides or (), trace=trace)
    changes = [parse(text) for text in override or ()]
    if changes and not resume:
        raise ConfigError("--override: changes a run that is resumed; without --resume use --set")
    if measure and not check:
        raise ConfigError("--measure: goes with --check")
    if check:
        devices = preparation.check(settings, print, machines or 1).planned.devices
        if measure:
            _measure(config, overrides or (), devices)
        return
    if local:
        if machines is None or place != Given(machines=machines):
            raise ConfigError(
                "--local: goes with --machines, and with none of --machine, --first, --interface, --port, --key"
            )
        raise typer.Exit(run_all(machines, _without(sys.argv[2:], "--local", "--machines")))
    group = join(place, os.environ) if place.is_for_several else None
    if group is not None:
        settings = _of_machine(settings, group.place, named_by_config=not config.is_dir())
    code = run(
        settings,
        resume=resume,
        allow_different_numerics=allow_different_numerics,
        changes=changes,
        again=None if group is not None else lambda run_dir: command("train", "--resume", run_dir),
        group=group,
    )
    raise typer.Exit(code)


def machines_key(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="the file to make, that nobody else can read")],
) -> None:
    """Make the key of a run on several machines; copy it to each. Who has it can take part, and nobody else can read
    what they send."""
    from pool.machines.key import write_key

    write_key(file)


def _of_machine(settings: Config, place: MachinePlace, *, named_by_config: bool) -> Config:
    """Returns the settings of one of several machines, which may have one disk. Raises ConfigError."""
    from pool.machines.place import MOST_BATCHES, MOST_NUMBERS

    exchange, batches, machine = settings.pool.exchange, settings.train.batches_per_step, place.machine
    if exchange not in ("auto", "host"):
        raise ConfigError(f"pool.exchange: {exchange}; for several machines set it to host")
    most = min(MOST_BATCHES, MOST_NUMBERS // len(settings.members)) * place.machines
    if batches > most:
        raise ConfigError(f"train.batches_per_step: {batches}; {place.machines} machines compute {most} at most")
    pool = settings.pool.model_copy(update={"exchange": "host"})
    run = settings.run
    train = settings.train
    if machine:  # the first one exports and tries networks for all
        train = train.model_copy(update={"export_every": 0, "on_export": (), "export_weights": None})
    if machine and named_by_config:
        run = run.model_copy(update={"dir": f"{run.dir}-machine-{machine}"})
    return settings.model_copy(update={"pool": pool, "run": run, "train": train})


def _without(arguments: Sequence[str], flag: str, option: str) -> list[str]:
    """Returns the arguments without a flag, and without an option and its value."""
    left: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == option:
            next(words, None)
        elif word != flag and not word.startswith(f"{option}="):
            left.append(word)
    return left


def _train_recipe(
    recipe: Recipe,
    config: Path,
    overrides: Sequence[str],
    list_stages: bool,
    check: bool,
    until: str | None,
    rerun: str | None,
    allow_different_numerics: bool,
) -> None:
    from pool.commands.tables import show
    from pool.stages.train import check_stages, table, train_stages
    from pool.supervisor.summary import command

    if list_stages:
        show(table(recipe), left="stage")
    elif check:
        check_stages(recipe, print)
    else:
        sets = [word for change in overrides for word in ("--set", change)]
        code = train_stages(
            recipe,
            until=until,
            rerun=rerun,
            allow_different_numerics=allow_different_numerics,
            again=lambda _: command("train", str(config), *sets, *([] if until is None else ["--until", until])),
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
