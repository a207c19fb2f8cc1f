"""The command `pool`: train, export, eval, settings. Parses, calls, and turns errors into one line and an exit code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from loader.errors import DataError
from pool.errors import EXIT_FAILED, PoolError
from pool.tasks.nnue.cli import eval_command

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Train networks with a huge sparse first layer on every GPU of a workstation.",
)
app.command("eval")(eval_command)


@app.command()
def train(
    config: Annotated[Path, typer.Argument(help="TOML file with the settings; see configs/nnue.toml")],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="change a setting, e.g. --set data.train=/data/*.binpack"),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="go on from the run's last checkpoint; from the start if there is none")
    ] = False,
) -> None:
    """Train a network: start feeder, workers and coordinator, watch them, show progress.

    Ctrl-C finishes the step, writes a checkpoint and stops; a second one stops at once.
    Exit codes: 0 done, 1 data or a process failed, 2 command line or config, 130 stopped by a signal.
    """
    from pool.config import load_config
    from pool.supervisor.supervisor import train as run

    raise typer.Exit(run(load_config(config, overrides or ()), resume=resume))


@app.command()
def export(
    checkpoint: Annotated[Path, typer.Argument(help="checkpoint folder, e.g. runs/x/checkpoints/last")],
    output: Annotated[Path, typer.Option("-o", "--output", help="file to write")],
    description: Annotated[str, typer.Option(help="text that the file carries")] = "Trained with sparsepool.",
) -> None:
    """Write the network of a checkpoint in the format of its user (nnue: a .nnue file that Stockfish loads)."""
    from pool.export import export_checkpoint

    export_checkpoint(checkpoint, output, description)


@app.command()
def settings(
    task: Annotated[str, typer.Option(metavar="NAME", help="whose sections model and loss to show")] = "nnue",
    as_markdown: Annotated[bool, typer.Option("--markdown", help="print the page docs/configuration.md")] = False,
) -> None:
    """Show every key that a config file may have: default, allowed values, meaning."""
    from pool.settings import markdown, plain, show

    if as_markdown:
        sys.stdout.write(markdown(task))
    elif sys.stdout.isatty():
        show(Console(highlight=False), task)
    else:
        sys.stdout.write(plain(task))


def main() -> None:
    """Entry point: no traceback for what a user can cause."""
    try:
        app()
    except PoolError as error:
        _fail(str(error), error.exit_code)
    except DataError as error:
        _fail(str(error), EXIT_FAILED)


def _fail(reason: str, code: int) -> None:
    sys.stderr.write(f"pool: {reason}\n")
    raise SystemExit(code)
