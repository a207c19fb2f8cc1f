"""The command `pool convert`, which turns a network file into a checkpoint, to start from or to export again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from loader.files.pipes import is_stream
from pool.commands.arguments import NetworkConfig
from pool.errors import ConfigError, PoolError
from pool.tasks.chess.networks.network_files import network_families, read_file


def convert(
    net: Annotated[
        Path,
        typer.Argument(
            metavar="NET",
            help="network file: as pool export writes it, or a checkpoint of nnue-pytorch (.ckpt, .pt)",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="new folder to write")],
    to: Annotated[Literal["checkpoint"], typer.Option("--to", help="what to make of it")] = "checkpoint",  # noqa: ARG001
    config: NetworkConfig = None,
) -> None:
    """Make a checkpoint of a network file: for model.start_from, pool export, pool eval and pool predict.

    The folder is that of a run which has done no step.
    """
    if output.suffix in {suffix for family in network_families().values() for suffix in family.SUFFIXES}:
        raise ConfigError(
            f"-o {output}: a checkpoint is a folder, and {output.suffix} names a network's file: convert to a folder "
            f"first, then pool export FOLDER -o {output.name}"
        )
    if is_stream(output):
        raise ConfigError(f"-o {output}: a checkpoint is a folder, which no pipe can hold: name one")
    if output.exists():
        raise ConfigError(f"{output}: is there already; give another name, or remove it first")
    network = read_file(net, config)
    settings = network.settings()
    checkpoint = _save_checkpoint(net, network.description, settings, output)
    sys.stdout.write(f"{checkpoint}: {settings['task']}, from {net}\n")


def _save_checkpoint(net: Path, description: str, settings: dict[str, dict[str, object]], output: Path) -> Path:
    """Builds the model of these settings, loads the network file into it, and saves it as a checkpoint of step 0.
    Returns the checkpoint's folder."""
    # late: torch
    from loader.stream.interface import Cursor
    from pool.checkpoint import store
    from pool.checkpoint.state import FOLDER, OptimizerNumbers
    from pool.config.load import parse_config
    from pool.task.factory import make_task
    from pool.task.start import without_start_from

    model_settings = {**settings["model"], "start_from": str(net.absolute())}
    config = parse_config({**settings, "model": model_settings, "run": {"dir": str(output)}}, str(net))
    task = make_task(config.task, config.model, config.loss)
    model = task.build_model()
    try:
        task.initialize(model)
    except ValueError as error:
        raise PoolError(f"{net}: {error}") from None
    start = store.Checkpoint(
        step=0,
        cursor=Cursor(),
        config=config.model_copy(update={"model": without_start_from(config.model)}).model_dump(mode="json"),
        fingerprint={},
        data=[],
        weights=model.state_dict(),
        optimizer_tensors={},
        optimizer=OptimizerNumbers({}, [], []),
        description=description.encode("utf-8", "surrogateescape").decode("latin-1"),
    )
    try:
        output.mkdir(parents=True)
        return store.save_checkpoint(output / FOLDER, start)
    except OSError as error:
        raise PoolError(f"{error.filename or output}: {error.strerror}") from None
