"""One line for each thing that was tried, and the table of them that a run ends with."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Line:
    what: str
    found: str
    aim: str = ""
    reached: bool | None = None  # None: there is no aim

    @property
    def verdict(self) -> str:
        return "" if self.reached is None else "reached" if self.reached else "missed"


class SkippedError(Exception):
    """What can't be tried here, and why."""


@dataclass(frozen=True)
class Section:
    name: str
    run: Callable[[], Iterable[Line]]


def lines_of(section: Section) -> Iterator[Line]:
    """Of one section. A failure is a line and no more: the sections after it are still worth having."""
    try:
        yield from section.run()
    except SkippedError as reason:
        yield Line(section.name, f"skipped: {reason}")
    except Exception as error:
        traceback.print_exc()
        text = " ".join(str(error).split())[:200]
        yield Line(section.name, f"failed: {type(error).__name__}: {text}", reached=False)


def show(lines: Iterable[Line], title: str) -> None:
    table = Table("what", "found", "aim", "", title=title)
    for line in lines:
        table.add_row(line.what, line.found, line.aim, line.verdict)
    Console(width=140).print(table)
