"""`pool export`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pool.commands.arguments import Checkpoint, TrustedTask


def register(app: typer.Typer) -> None:
    app.command(name="export")(export)


def export(
    checkpoint: Checkpoint,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="file to write")],
    description: Annotated[
        str, typer.Option(metavar="TEXT", help="text that the file carries")
    ] = "Trained with sparsepool.",
    task: TrustedTask = None,
) -> None:
    """Write the network of a checkpoint in the format of its user (stockfish: a .nnue file that the engine loads)."""
    from pool.tasks.export import export_checkpoint

    exported = export_checkpoint(checkpoint, output, description, task)
    sys.stdout.write(f"{output}: {output.stat().st_size:,} bytes, from {exported}\n")
