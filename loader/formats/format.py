"""The interface of a file format, which is a module or a package with the names of `Format`.

Formats in the folder `formats` of a family are found automatically; a user's own format is named in `data.format`. A
format belongs to a source (`data.source`), which decides what the entries of a reader are: for chess,
`loader.chess.positions.entry.Entry`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from loader.files.identity import DataFile
from loader.stream.config import DataConfig

OnProgress = Callable[[int, int], None]  # bytes done, bytes in all
HEAD_BYTES = 4096  # beginning of a file by which formats recognize it


@dataclass(frozen=True)
class Place:
    """Where a chunk lies: its file, its number within the file, and its offset."""

    file: Path
    chunk: int  # number within the file
    offset: int | None = None  # bytes from the start of the file


class Reader(Protocol):
    """Open files, as a sequence of chunks that can be read independently, in any order, by several threads.

    A reader with an attribute `native`, of the family's class in the native module, is read without Python. An
    attribute `noun`, if there is one, is what messages call a chunk; it is empty if each file is one chunk.
    """

    @property
    def name(self) -> str:
        """The name of the files, for messages."""

    @property
    def num_chunks(self) -> int:
        """The number of chunks in all files; always the same for the same files."""

    def place(self, chunk: int) -> Place:
        """Returns the place of chunk number `chunk`, counted over all files."""

    def read(self, chunk: int) -> Iterable[Any]:
        """Returns the entries of chunk number `chunk`, always the same ones. At damage it raises DataError, after the
        entries before the damage (I8)."""


@runtime_checkable
class CountingReader(Protocol):
    """A reader that can count the entries of a chunk faster than by reading them."""

    def count(self, chunk: int) -> int:
        """Returns the number of entries in chunk number `chunk`, up to damage if there is any."""


class Format(Protocol):
    """A file format: which files have it, and how they are opened."""

    FAMILY: str  # the name of the source whose records its files hold
    SUFFIXES: Sequence[str]  # endings of its files' names, as ".binpack"

    def recognizes(self, head: bytes) -> bool:
        """Returns whether a file that begins with these bytes, up to HEAD_BYTES, has this format. Returns False if the
        bytes can't tell."""

    def open_files(self, files: Sequence[DataFile], may_grow: bool, skip_damaged: bool) -> Reader:
        """Opens the first `size` bytes of each file. A file may be longer only with `may_grow`.

        Raises DataError for a file that can't be used at all. With `skip_damaged` such files are left out, and it
        raises only if none can be used.
        """


@runtime_checkable
class GrowingFormat(Protocol):
    """A format whose files may end in a half-written record, because another program still appends to them."""

    def whole_size(self, file: DataFile) -> int:
        """Returns the size of the file in bytes without a half-written record at its end. Raises DataError."""


@runtime_checkable
class ColumnFormat(Protocol):
    """A format whose entries have named columns."""

    def texts(self, config: DataConfig, file: DataFile, column: str) -> Iterator[str]:
        """Yields the value of the column in each entry of the file, as text. Raises DataError, also for a column that
        does not exist."""


@runtime_checkable
class ConfiguredFormat(Protocol):
    """A format whose reader needs the settings of its source. Files are opened with `open_with` instead of
    `open_files`."""

    def open_with(self, config: DataConfig, files: Sequence[DataFile]) -> Reader:
        """Opens files as `open_files` does, as the settings say. Raises ValueError for settings that the format can't
        serve."""
