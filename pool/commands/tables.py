"""Prints tables to stdout: with lines on a terminal, as plain text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence

# late imports: a command loads what it uses, so that --help and mistakes are answered at once


def print_table(table: Sequence[Sequence[str]], *, left: str = "run") -> None:
    """Prints a table, headings first. The column named `left` is aligned to the left, the others to the right."""
    if not sys.stdout.isatty():
        sys.stdout.write(format_table(table))
        return
    # late: of use on a terminal alone
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    headings, *rows = table
    rich_table = Table(*(Column(Text(name), justify="left" if name == left else "right") for name in headings))
    for row in rows:
        rich_table.add_row(*map(Text, row))
    Console(highlight=False).print(rich_table)


def format_table(table: Sequence[Sequence[str]]) -> str:
    """Formats a table as lines of text. The first column is aligned to the left, the others to the right."""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = []
    for row in table:
        numbers = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        cells = [row[0].ljust(widths[0]), *numbers]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"
