"""`pool export`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

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
    header: Annotated[
        Literal["c", "rust", "none"],
        typer.Option(
            metavar="LANGUAGE",
            help="c or rust: also write a .h or .rs beside FILE with its shapes and scales, for an engine to include",
        ),
    ] = "none",
    task: TrustedTask = None,
) -> None:
    """Write the network of a checkpoint in the format of its user.

    stockfish: a .nnue file. perspective: a file of numbers in bullet's format, with its description FILE.json beside
    it; if it is named *raw.bin or *weights.bin, the floats.
    """
    from pool.tasks.export import export_checkpoint, header_path

    language = None if header == "none" else header
    exported = export_checkpoint(checkpoint, output, description, task, language)
    sys.stdout.write(f"{output}: {output.stat().st_size:,} bytes, from {exported}\n")
    if language is not None:
        sys.stdout.write(f"{header_path(output, language)}: what {output.name} holds\n")
