"""`pool settings`: every key that a config may have."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command(name="settings")(settings)


def settings(
    task: Annotated[str, typer.Option(metavar="NAME", help="whose sections model and loss to show")] = "nnue",
    as_markdown: Annotated[bool, typer.Option("--markdown", help="print the page docs/configuration.md")] = False,
) -> None:
    """Show every key that a config file may have: default, allowed values, meaning."""
    from pool.config.page import markdown, plain, show

    if as_markdown:
        sys.stdout.write(markdown(task))
    elif sys.stdout.isatty():
        from rich.console import Console

        show(Console(highlight=False), task)
    else:
        sys.stdout.write(plain(task))
