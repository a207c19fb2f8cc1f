"""What the program `loader` asks of a family of formats: its commands, and its part of `verify`, `dump`, `inspect`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from loader.files.pipes import Input

Option = tuple[Any, Any]  # the annotation that typer reads, and the default
Options = Mapping[str, Option]  # by the names of their parameters


@dataclass(frozen=True)
class Illegal:
    """Entries that no file should have, though each can be read: of one kind."""

    kind: str
    entries: int
    offset: int | None  # of the first
    first: str  # its place in words, and the kind


@dataclass(frozen=True)
class Verdict:
    """The result of verifying a file."""

    file: str
    ok: bool
    entries: int  # that can be read, before the damage if there is any; the illegal ones too
    offset: int | None = None  # of the damage; None: no place in the file
    reason: str | None = None
    illegal: Sequence[Illegal] = ()


class Statistics(Protocol):
    """Statistics of a file."""

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data, for JSON."""

    def rows(self) -> list[tuple[str, str]]:
        """Returns names and values, for people."""

    def charts(self, solid: str) -> Iterable[str]:  # noqa: ARG002
        """Yields lines of what is better seen than read, with bars of the letter `solid`; none by default."""
        return ()

    def draw(self) -> Sequence[Path]:
        """Draws the pictures that its user has asked for, and returns their files; none by default. Raises OSError."""
        return ()


class FileTools(Protocol):
    """Looks into files of one family, as the options of a command line want it.

    `format`: the name of the file's format. Of a pipe it is the name that the user has given, or None.
    """

    def refuse_options(self, path: Path) -> None:
        """Raises UsageError if an option is given that is of this family alone, for a file of another one."""

    def verify(self, file: Input, format: str | None, threads: int) -> Verdict:
        """Reads every entry of a file, up to the first damage. Raises UsageError, and DataError for a file that can't
        be opened."""

    def dump(self, file: Input, format: str | None, limit: int | None) -> Iterator[bytes]:
        """Yields blocks of whole lines, one line an entry. Raises UsageError, and DataError at damage, after the
        entries before it."""

    def inspect(self, file: Input, format: str | None, threads: int) -> Statistics:
        """Reads every entry of a file. Raises UsageError, and DataError at damage."""


class Family(Protocol):
    """The module `cli.family` of a family's package."""

    COMMANDS: Sequence[Any]  # modules with a function `register(app)`, in the order of --help
    READS_PIPES: bool  # True of one family: nothing says what a pipe holds before it is read
    OPTIONS: Mapping[str, Mapping[str, Options]]  # by the command, and by the parameter that they follow in --help

    def make_tools(self, num_files: int, **options: Any) -> FileTools:
        """Makes the tools for a command on so many files. `options`: values of OPTIONS of the command. Raises
        UsageError."""
