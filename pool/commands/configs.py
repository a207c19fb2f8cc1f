"""The commands `pool configs` and `pool settings`: the configs that come with the package, and every key of a
config."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from pool.errors import ConfigError

# late imports: every command starts without what it does not use


def register(app: typer.Typer) -> None:
    app.command(name="configs")(configs)
    app.command(name="settings")(settings)


def _config_names(incomplete: str) -> list[str]:
    """Returns the names of bundled configs that begin with `incomplete`, for the shell to complete."""
    from pool.config import bundle

    return [name for name in bundle.list_names() if name.startswith(incomplete)]


def configs(
    name: Annotated[str, typer.Argument(metavar="NAME", help="the config to copy", autocompletion=_config_names)] = "",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="new file to write; - or none: it is printed")
    ] = None,
) -> None:
    """List the configs that come with the package, or copy one to begin with."""
    from loader.files.endings import check_output_ending
    from loader.files.pipes import is_stream
    from pool.config import bundle

    if not name:
        if output is not None:
            raise ConfigError(f"configs: which one is to be copied? There are {', '.join(bundle.list_names())}")
        names = bundle.list_names()
        width = 2 + max(map(len, names))
        lines = [f"{name:<{width}}{bundle.read_summary(name)}" for name in names]
        lines += ["", "Copy one: pool configs NAME -o my.toml", f"Sample data: {bundle.configs_folder() / 'sample'}"]
        sys.stdout.write("\n".join(lines) + "\n")
    elif output is None or is_stream(output):
        sys.stdout.write(bundle.read_text(name))
    else:
        from pool.config.load import read_toml
        from pool.stages.recipe import is_recipe

        check_output_ending(output, "configs", [".toml"])
        bundle.copy_config(name, output)
        command = "recipe" if is_recipe(read_toml(output)) else "train"
        sys.stdout.write(f"{output}: edit it, then pool {command} {shlex.quote(str(output))}\n")


def settings(
    task: Annotated[str, typer.Option(metavar="NAME", help="whose sections model and loss to show")] = "stockfish",
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="whose section of data to show; those of all that are built in")
    ] = None,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="print docs/reference/configuration.md")] = False,
) -> None:
    """Show every key that a config file may have: default, allowed values, meaning."""
    from loader.stream.sources import SOURCES
    from pool.config.reference import format_markdown, format_text, print_settings

    sources = tuple(SOURCES.bundled) if source is None else (source,)
    if as_markdown:
        sys.stdout.write(format_markdown(task, sources))
    elif sys.stdout.isatty():
        from rich.console import Console

        print_settings(Console(highlight=False), task, sources)
    else:
        sys.stdout.write(format_text(task, sources))
