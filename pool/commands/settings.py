"""`pool settings`: every key that a config may have."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

# late imports: a command loads what it uses, so that --help and mistakes are answered at once


def register(app: typer.Typer) -> None:
    app.command(name="settings")(settings)


def settings(
    task: Annotated[str, typer.Option(metavar="NAME", help="whose sections model and loss to show")] = "stockfish",
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="whose section of data to show; those of all that are built in")
    ] = None,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="print docs/reference/configuration.md")] = False,
) -> None:
    """Show every key that a config file may have: default, allowed values, meaning."""
    from loader.stream.sources import SOURCES
    from pool.config.reference import markdown, plain, show

    sources = tuple(SOURCES.bundled) if source is None else (source,)
    if as_markdown:
        sys.stdout.write(markdown(task, sources))
    elif sys.stdout.isatty():
        from rich.console import Console

        show(Console(highlight=False), task, sources)
    else:
        sys.stdout.write(plain(task, sources))
