"""`pool export`."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from pool.commands.arguments import Checkpoint, TrustedTask


def register(app: typer.Typer) -> None:
    app.command(name="export")(export)


class Header(Enum):
    """Languages of source code that describes an exported file."""

    C = "c"
    RUST = "rust"
    NONE = "none"


def export(
    checkpoint: Checkpoint,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="file to write")],
    description: Annotated[
        str, typer.Option(metavar="TEXT", help="text that the file carries")
    ] = "Trained with sparsepool.",
    header: Annotated[
        Header,
        typer.Option(
            metavar="c|rust|none",
            help="also write a .h or .rs beside FILE: shapes and scales, for an engine to include",
        ),
    ] = Header.NONE,
    task: TrustedTask = None,
) -> None:
    """Write the network of a checkpoint in the format of its user.

    stockfish: a .nnue file. perspective: a file of numbers in bullet's format, with its description FILE.json beside
    it; if it is named *raw.bin or *weights.bin, the floats.
    """
    from pool.tasks.export import export_checkpoint, header_path

    language = None if header is Header.NONE else header.value
    exported = export_checkpoint(checkpoint, output, description, task, language)
    sys.stdout.write(f"{output}: {output.stat().st_size:,} bytes, from {exported}\n")
    if language is not None:
        sys.stdout.write(f"{header_path(output, language)}: what {output.name} holds\n")
