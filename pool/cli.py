"""The command `pool`: train, export, eval, configs, settings. Turns errors into one line and an exit code."""

from __future__ import annotations

import errno
import importlib.metadata
import shlex
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from loader.errors import DataError
from loader.standard_streams import give_up_stdout, open_closed_streams
from pool.errors import EXIT_DATA, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_PIPE_CLOSED, EXIT_USAGE, ConfigError, PoolError
from pool.tasks.nnue.cli import eval_command

app = typer.Typer(
    no_args_is_help=True,
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
    override: Annotated[
        list[str] | None,
        typer.Option(
            "--override",
            metavar="KEY=VALUE",
            help="with --resume: change what the checkpoint holds of the optimizer or the schedule, such as "
            "optimizer.args.lr=5e-4, from this step on; may be given several times",
        ),
    ] = None,
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
    --set 'data.train=/data/*.binpack' --set run.dir=runs/first
    """
    from pool.checkpoint.overrides import parse
    from pool.config import load_config
    from pool.supervisor import preparation
    from pool.supervisor.closing import resume_command
    from pool.supervisor.supervisor import train as run

    settings = load_config(config, overrides or (), trace=trace)
    changes = [parse(text) for text in override or ()]
    if changes and not resume:
        raise ConfigError("--override: changes a run that is resumed; without --resume use --set")
    if check:
        sys.stdout.write(preparation.check(settings) + "\n")
        return
    again = resume_command(config, overrides or ())
    code = run(settings, resume=resume, allow_different_numerics=allow_different_numerics, changes=changes, again=again)
    raise typer.Exit(code)


@app.command()
def export(
    checkpoint: Annotated[
        Path,
        typer.Argument(metavar="CHECKPOINT", help="a checkpoint's folder, or a run's, whose newest is taken"),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="file to write")],
    description: Annotated[
        str, typer.Option(metavar="TEXT", help="text that the file carries")
    ] = "Trained with sparsepool.",
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            metavar="NAME",
            help="the checkpoint's task; needed if it is a module, which is imported: it must be one that you trust",
        ),
    ] = None,
) -> None:
    """Write the network of a checkpoint in the format of its user (nnue: a .nnue file that Stockfish loads)."""
    from pool.export import export_checkpoint

    exported = export_checkpoint(checkpoint, output, description, task)
    sys.stdout.write(f"{output}: {output.stat().st_size:,} bytes, from {exported}\n")


def _config_names(incomplete: str) -> list[str]:
    """What the shell may complete a word to."""
    from pool import bundled

    return [name for name in bundled.names() if name.startswith(incomplete)]


@app.command()
def configs(
    name: Annotated[str, typer.Argument(metavar="NAME", help="the config to copy", autocompletion=_config_names)] = "",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="new file to write; else it is printed")
    ] = None,
) -> None:
    """List the configs that come with the package, or copy one to begin with."""
    from pool import bundled

    if not name:
        if output is not None:
            raise ConfigError(f"configs: which one is to be copied? There are {', '.join(bundled.names())}")
        lines = [f"{name:<12}{bundled.about(name)}" for name in bundled.names()]
        lines += ["", "Copy one: pool configs NAME -o my.toml", f"Sample data: {bundled.folder() / 'sample'}"]
        sys.stdout.write("\n".join(lines) + "\n")
    elif output is None:
        sys.stdout.write(bundled.text(name))
    else:
        bundled.copy(name, output)
        sys.stdout.write(f"{output}: edit it, then pool train {shlex.quote(str(output))}\n")


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
