"""The interface of a file format: a module, or a package, with these names.

Formats in this folder are found automatically; a format of a user's own is named in `data.format`. A format belongs to
a source (`data.source`), which decides what a reader's `read` gives: for chess, `loader.chess.positions.entry.Entry`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from loader.files.identity import DataFile
from loader.stream.config import DataConfig

OnProgress = Callable[[int, int], None]  # bytes done, bytes in all
HEAD_BYTES = 4096  # of a file's beginning, by which a format knows its own


@dataclass(frozen=True)
class Place:
    """The place of a chunk."""

    file: Path
    chunk: int  # of the file
    offset: int | None = None  # bytes from the start of the file


class Reader(Protocol):
    """Files that are open: chunks that can be read alone and in any order, by several threads.

    A reader with an attribute `native`, of the family's class in the native module, is read without Python. `noun`, if
    there is one, is what messages call a chunk; empty if each file is one.
    """

    @property
    def name(self) -> str:
        """The name of the files, for messages."""

    @property
    def num_chunks(self) -> int:
        """The number of chunks of all files; the same for the same files."""

    def place(self, chunk: int) -> Place:
        """Returns the place of chunk number `chunk` of all files."""

    def read(self, chunk: int) -> Iterable[Any]:
        """The chunk's entries, always the same. Raises DataError at damage, after the entries before it (I8)."""


@runtime_checkable
class CountingReader(Protocol):
    """A reader that can count faster than it reads."""

    def count(self, chunk: int) -> int:
        """The chunk's entries, up to damage."""


class Format(Protocol):
    FAMILY: str  # the name of the source whose records its files hold
    SUFFIXES: Sequence[str]  # of names of its files: ".binpack"

    def recognizes(self, head: bytes) -> bool:
        """Tells whether a file that begins with these bytes, up to HEAD_BYTES, is one. False if that can't be seen."""

    def open_files(self, files: Sequence[DataFile], may_grow: bool, skip_damaged: bool) -> Reader:
        """`size` bytes of each file; behind them there may be more only with `may_grow`.

        Raises DataError for a file that can't be used at all; with `skip_damaged` only if that is true of all.
        """


@runtime_checkable
class GrowingFormat(Protocol):
    """A format whose files may end in a piece that is half written."""

    def whole_size(self, file: DataFile) -> int:
        """Bytes of the file without that piece. Raises DataError."""


@runtime_checkable
class ColumnFormat(Protocol):
    """A format whose entries have columns that are known by their names."""

    def texts(self, config: DataConfig, file: DataFile, column: str) -> Iterator[str]:
        """Yields that column of each entry, as text. Raises DataError; also for a column that is not there."""


@runtime_checkable
class ConfiguredFormat(Protocol):
    """A format that needs the settings of its source: `open_with` is called instead of `open_files`."""

    def open_with(self, config: DataConfig, files: Sequence[DataFile]) -> Reader:
        """Opens files as `open_files` does. Raises ValueError for settings that can't be served."""
