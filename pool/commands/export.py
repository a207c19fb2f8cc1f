"""`pool export`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command(name="export")(export)


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
    from pool.tasks.export import export_checkpoint

    exported = export_checkpoint(checkpoint, output, description, task)
    sys.stdout.write(f"{output}: {output.stat().st_size:,} bytes, from {exported}\n")
