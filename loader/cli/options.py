"""Arguments and options that several commands for any data share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loader.cores import allowed_cores

MAX_SEED = (1 << 64) - 1

AnyFiles = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", help="Data files, or pipes of positions; - is standard input.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")]
Format = Annotated[
    str | None, typer.Option("--format", metavar="FORMAT", help="FILE's format, if its bytes and its name don't say.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, max=MAX_SEED, metavar="N", help="Another seed draws otherwise.")]
ALL_THREADS = min(allowed_cores(), 8)
AS_MANY_AS_CORES = "as many as cores, at most 8"  # the default in words: pages are the same on all machines
Threads = Annotated[
    int,
    typer.Option(
        "--threads",
        min=1,
        max=256,
        metavar="N",
        help="Threads that read; they change no byte.",
        show_default=AS_MANY_AS_CORES,
    ),
]
