"""Defines the arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from pool.errors import ConfigError

Checkpoint = Annotated[
    Path, typer.Argument(metavar="CHECKPOINT", help="a checkpoint's folder, or a run's, whose newest is taken")
]
Member = Annotated[
    str | None,
    typer.Option(
        "--member",
        metavar="M",
        help="of an ensemble: one member, by its number from 0; or best, by train.best_metric in the newest "
        "validation, without validations by the training loss",
    ),
]
Averaged = Annotated[
    bool,
    typer.Option("--ema", "--swa", help="the averaged weights of a run with train.average, in place of the newest"),
]
TrustedTask = Annotated[
    str | None,
    typer.Option(
        "--task",
        metavar="NAME",
        help="the checkpoint's task; needed if it is a module, which is imported: it must be one that you trust",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="replace an output that exists")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="change a setting; may be given several times"),
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="continue from the last checkpoint in run.dir, if there is one"),
]
AllowDifferentNumerics = Annotated[
    bool,
    typer.Option(
        "--allow-different-numerics",
        help="resume although torch, CPU, GPU or build differ: from there on the weights have other bits",
    ),
]
Override = Annotated[
    list[str] | None,
    typer.Option(
        "--override",
        metavar="KEY=VALUE",
        help="with --resume: change a setting of the optimizer or the schedule from this step on, such as "
        "optimizer.args.lr=5e-4; may be given several times",
    ),
]
TraceFile = Annotated[
    Path | None, typer.Option("--trace", metavar="FILE", help="write a timeline of all processes, for Perfetto")
]
NetworkConfig = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE.toml",
        help="config of such a network; for a file of numbers without the description that pool export puts beside",
    ),
]


def refuse_existing(outputs: Iterable[Path], force: bool) -> None:
    """Checks that no output would replace a file, unless `force` is given. Raises ConfigError for the first that
    would."""
    for output in outputs:
        if output.is_file() and not force:
            raise ConfigError(f"{output}: is there already; give another name, or --force to replace it")


def parse_overrides(values: Iterable[str] | None, *, resume: bool) -> list[tuple[str, Any]]:
    """Parses the values of `--override` to keys and values. Raises ConfigError for a value that can't be parsed, and
    for any without `--resume`."""
    from pool.supervisor.prepare.overrides import parse_override  # late: pydantic, which `pool --help` needs not

    changes = [parse_override(text) for text in values or ()]
    if changes and not resume:
        raise ConfigError("--override: changes a run that is resumed; without --resume use --set")
    return changes
