"""The part of the family rows in the program `loader`, as `loader.formats.file_tools.Family`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from loader.cli.terminal import show_byte_progress, show_interruptible_progress
from loader.files.pipes import Input
from loader.formats.file_tools import Options, Statistics, VerifyResult

if TYPE_CHECKING:
    from loader.formats.format import OnProgress

# late imports: a command loads what it uses, so that --help and mistakes are answered at once

COMMANDS: Sequence[Any] = ()
READS_PIPES = False
OPTIONS: Mapping[str, Mapping[str, Options]] = {}


class RowsFormat(Protocol):
    """The functions that a bundled format of rows has for the program `loader`."""

    def verify(self, path: Path, threads: int, progress: OnProgress | None) -> VerifyResult:
        """Reads every entry of a file, up to the first damage, and returns the result."""

    def inspect(self, path: Path, progress: OnProgress | None) -> Statistics:
        """Reads every entry of a file and returns its statistics. Raises DataError at damage."""

    def dump(self, path: Path, limit: int | None) -> Iterator[bytes]:
        """Yields the entries as text, one line an entry, in blocks of whole lines. Raises DataError at damage, after
        the entries before it."""


class RowTools:
    """Implements `loader.formats.file_tools.FileTools` for rows with the functions of each file's format."""

    def refuse_options(self, path: Path) -> None:
        """Does nothing, since the family rows has no options of its own to refuse."""

    def verify(self, file: Input, format: str | None, threads: int) -> VerifyResult:
        with show_byte_progress(file.path.name) as progress:
            return _format(format).verify(file.path, threads, progress)

    def dump(self, file: Input, format: str | None, limit: int | None) -> Iterator[bytes]:
        return _format(format).dump(file.path, limit)

    def inspect(self, file: Input, format: str | None, threads: int) -> Statistics:  # noqa: ARG002 (one reads)
        with show_interruptible_progress(file.path.name) as progress:
            return _format(format).inspect(file.path, progress)


def make_tools(num_files: int) -> RowTools:  # noqa: ARG001 (there are no options)
    return RowTools()


def _format(name: str | None) -> RowsFormat:
    from loader.formats.registry import load_format

    assert name is not None, "no pipe of rows is read"
    return cast("RowsFormat", load_format(name))
