"""The interface that a family of formats offers to the program `loader`: commands of its own, and its part in the
commands `verify`, `dump` and `inspect`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from loader.files.pipes import Input

Option = tuple[Any, Any]  # the annotation that typer reads, and the default
Options = Mapping[str, Option]  # by the names of their parameters


@dataclass(frozen=True)
class IllegalEntries:
    """Entries of one kind that can be read but that no file should have, as positions that no game can reach."""

    kind: str
    entries: int
    offset: int | None  # bytes from the start of the file to the first one
    first: str  # where the first one is, as text, and the kind


@dataclass(frozen=True)
class VerifyResult:
    """The result of verifying a file: whether it is intact, how many entries are good, and where the damage is."""

    file: str
    ok: bool
    entries: int  # readable entries, up to the damage if there is any; illegal ones count
    offset: int | None = None  # bytes from the start of the file to the damage; None: unknown, or no damage
    reason: str | None = None
    illegal: Sequence[IllegalEntries] = ()


class Statistics(Protocol):
    """What `loader inspect` shows of a file."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the statistics as plain data, for JSON."""

    def rows(self) -> list[tuple[str, str]]:
        """Returns pairs of a name and its value as text, for people."""

    def charts(self, solid: str) -> Iterable[str]:  # noqa: ARG002
        """Yields lines of text charts, with bars made of the character `solid`. No lines by default."""
        return ()

    def draw(self) -> Sequence[Path]:
        """Draws the pictures that the options ask for, and returns their files. No pictures by default. Raises
        OSError."""
        return ()


class FileTools(Protocol):
    """Reads files of one family for the commands `verify`, `dump` and `inspect`, as the options of the command line
    say.

    `format`: the name of the file's format. For a pipe it is the name that the user has given, or None.
    """

    def refuse_options(self, path: Path) -> None:
        """Raises UsageError if an option of this family is given, because the file `path` belongs to another family."""

    def verify(self, file: Input, format: str | None, threads: int) -> VerifyResult:
        """Reads every entry of a file, up to the first damage, and returns the result. Raises UsageError, and DataError
        for a file that can't be opened."""

    def dump(self, file: Input, format: str | None, limit: int | None) -> Iterator[bytes]:
        """Yields the file's entries as text, one line an entry, in blocks of whole lines. Raises UsageError, and at
        damage DataError, after the entries before it."""

    def inspect(self, file: Input, format: str | None, threads: int) -> Statistics:
        """Reads every entry of a file and returns its statistics. Raises UsageError, and DataError at damage."""


class Family(Protocol):
    """The interface of the module `cli.family` in a family's package: the family's part of the program `loader`."""

    COMMANDS: Sequence[Any]  # modules with a function `register(app)`, in the order of --help
    READS_PIPES: bool  # pipes belong to this family; True for one only, as a pipe's format can't be seen
    OPTIONS: Mapping[str, Mapping[str, Options]]  # by the command, and by the parameter that they follow in --help

    def make_tools(self, num_files: int, **options: Any) -> FileTools:
        """Makes the tools for a command that was given `num_files` files. `options`: values of the command's OPTIONS.
        Raises UsageError for options that can't be followed."""
