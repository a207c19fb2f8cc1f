"""Arguments that several commands for networks have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

NetConfig = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE.toml",
        help="config of such a network; for a file of numbers without the description that pool export puts beside",
    ),
]
