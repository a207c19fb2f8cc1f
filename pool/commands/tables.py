"""Tables on stdout: drawn on a terminal, plain elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence

# late imports: a command loads what it uses, so that --help and mistakes are answered at once


def show(table: Sequence[Sequence[str]], *, left: str = "run") -> None:
    """`table`: headings, then rows; `left`: the column that stands to the left, the others to the right."""
    if not sys.stdout.isatty():
        from pool.analysis.table import plain

        sys.stdout.write(plain(table))
        return
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    headings, *lines = table
    drawn = Table(*(Column(Text(name), justify="left" if name == left else "right") for name in headings))
    for line in lines:
        drawn.add_row(*map(Text, line))
    Console(highlight=False).print(drawn)
