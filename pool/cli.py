"""The command `pool`: train, export, eval, settings. Parses, calls, and turns errors into one line and an exit code."""

from __future__ import annotations

import errno
import importlib.metadata
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from loader.errors import DataError
from loader.standard_streams import give_up_stdout, open_closed_streams
from pool.errors import EXIT_DATA, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_PIPE_CLOSED, EXIT_USAGE, PoolError
from pool.tasks.nnue.cli import eval_command

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich" if sys.stdout is not None and sys.stdout.isatty() else None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Train networks with a huge sparse first layer on every GPU of a workstation.",
)
app.command("eval")(eval_command)


def _show_version(show: bool) -> None:
    if show:
        sys.stdout.write(f"sparsepool {importlib.metadata.version('sparsepool')}\n")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="show the version and exit")
    ] = False,
) -> None:
    """What every command has."""


@app.command()
def train(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="settings; `pool settings` lists them all")],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="change a setting; may be given several times"),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="go on from run.dir's last checkpoint, from the start if there is none")
    ] = False,
    allow_different_numerics: Annotated[
        bool,
        typer.Option(
            "--allow-different-numerics",
            help="resume though torch, CPU, GPU or build are others: other bits from there",
        ),
    ] = False,
    trace: Annotated[
        Path | None, typer.Option("--trace", metavar="FILE", help="write what each process does when, for Perfetto")
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="show what the run would be and take: samples, devices, disk, memory; start nothing"
        ),
    ] = False,
) -> None:
    """Train a network; checkpoints, metrics and logs go into the folder run.dir.

    Ctrl-C finishes the step, writes a checkpoint and stops; a second one stops at once. Exit codes: 0 done, 1 failed, 2
    command line or config, 65 damaged data, 71 not enough memory or disk, 75 a process died again and again, 130 or 143
    stopped by a signal. Example: pool train configs/nnue.toml
    --set data.train=/data/*.binpack --set run.dir=runs/first
    """
    from pool.config import load_config
    from pool.supervisor import preparation
    from pool.supervisor.supervisor import train as run

    settings = load_config(config, overrides or (), trace=trace)
    if check:
        sys.stdout.write(preparation.check(settings) + "\n")
        return
    raise typer.Exit(run(settings, resume=resume, allow_different_numerics=allow_different_numerics))


@app.command()
def export(
    checkpoint: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="its folder, e.g. runs/x/checkpoints/last")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="file to write")],
    description: Annotated[
        str, typer.Option(metavar="TEXT", help="text that the file carries")
    ] = "Trained with sparsepool.",
) -> None:
    """Write the network of a checkpoint in the format of its user (nnue: a .nnue file that Stockfish loads)."""
    from pool.export import export_checkpoint

    export_checkpoint(checkpoint, output, description)
    sys.stdout.write(f"{output}: {output.stat().st_size:,} bytes\n")


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
    """Entry point: what a user can cause is one line on stderr and an exit code, never a traceback."""
    open_closed_streams()
    try:
        code = app(prog_name="pool", standalone_mode=False)
        sys.stdout.flush()
    except PoolError as error:
        _fail(str(error), error.exit_code)
    except DataError as error:
        _fail(str(error), EXIT_DATA)
    except OSError as error:
        if error.filename is None:
            give_up_stdout()  # it may be what failed
        if error.errno == errno.EPIPE:
            raise SystemExit(EXIT_PIPE_CLOSED) from None
        name = f"{error.filename}: " if error.filename is not None else ""
        _fail(f"{name}{error.strerror or error}", EXIT_FAILED)
    except (KeyboardInterrupt, typer.Abort):
        _fail("interrupted", EXIT_INTERRUPTED)
    except Exception as error:
        usage = getattr(error, "format_message", None)  # typer's errors about the command line
        if usage is None:
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            sys.stderr.write(f"{usage()}\n")
            raise SystemExit(EXIT_USAGE) from None
        _fail(" ".join(usage().split()), EXIT_USAGE)
    raise SystemExit(code if isinstance(code, int) else 0)


def _fail(reason: str, code: int) -> NoReturn:
    sys.stderr.write(f"pool: {reason}\n")
    raise SystemExit(code)
