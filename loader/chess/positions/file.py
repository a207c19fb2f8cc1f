"""Opens files of positions for the stream and for tools, and turns faults that native code reports into errors.

Native code does the decoding, one chunk (about 1 MiB of a file) at a time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple, cast

from loader import _native
from loader.chess.filters import needed_parts
from loader.chess.positions.entry import Entry, parse_entry
from loader.chess.positions.format import PositionFormat
from loader.chess.positions.game_index import saved_borders
from loader.errors import DataChangedError, DataError
from loader.files.identity import DataFile
from loader.formats.errors import Fault
from loader.formats.file_tools import IllegalEntries
from loader.formats.format import Place
from loader.formats.readers import open_usable_files
from loader.stream.config import DataConfig
from loader.stream.skipped_data import SkippedData

LINES_AT_ONCE = 4096
_OPENED_AT_ONCE = 16  # files that are opened at the same time


class BadDataPolicy(NamedTuple):
    """The treatment of data that can't be used: damage, and positions or moves that no game can have."""

    on_bad_data: str | None  # as data.on_bad_data; None: keep illegal positions; "count": leave out only those
    every: bool  # check all positions for legality; else only the first of a game or chain

    @property
    def skips(self) -> bool:
        return self.on_bad_data == "skip"


KEEP_ILLEGAL, COUNT_ILLEGAL = BadDataPolicy(None, False), BadDataPolicy("count", True)


@dataclass(frozen=True)
class ChunkCheck:
    """The numbers of legal and illegal entries of a chunk, up to the first damage."""

    entries: int  # number of legal entries
    illegal: tuple[IllegalEntries, ...] = ()
    damage: DataError | None = None


def open_files(format: PositionFormat, files: Sequence[DataFile], may_grow: bool, skip_damaged: bool) -> EntriesReader:
    """Opens files of a built-in format. Implements `loader.formats.format.Format.open_files`."""
    return EntriesReader(format, files, may_grow=may_grow, skip_damaged=skip_damaged)


def open_with(format: PositionFormat, config: DataConfig, files: Sequence[DataFile]) -> EntriesReader:
    """Opens files of a built-in format by the settings of the training data. Implements
    `loader.formats.format.ConfiguredFormat.open_with`."""
    return EntriesReader(
        format,
        files,
        may_grow=config.may_grow,
        skip_damaged=config.on_bad_data == "skip",
        needed=needed_parts(config.settings.filters),
        policy=BadDataPolicy(config.on_bad_data, every=False),
    )


def whole_size(format: PositionFormat, file: DataFile) -> int:
    """Returns the size in bytes of the complete part of a growing file, without a last record, line, game or chunk that
    is still being written."""
    return open_file(format, file, may_grow=True).whole_size


def open_file(
    format: PositionFormat,
    file: DataFile,
    *,
    indexed: bool = True,
    may_grow: bool = False,
    needed: Sequence[str] = (),
    policy: BadDataPolicy = KEEP_ILLEGAL,
) -> _native.EntryFile:
    """Opens an identified file of positions. Raises DataError.

    Another file that has replaced the identified one is refused, now and at every read. `indexed`: for formats without
    borders to jump to, takes the places where games begin from the index beside the file, and saves them there.
    `may_grow`: another process may append to the file meanwhile. An entry that lacks a part listed in `needed` counts
    as damage.
    """
    codec = format.codec
    if not codec.is_sought or not indexed:
        return _native.open_entries(codec, file.path, file.identity, may_grow, needed, None, *policy)
    with saved_borders(format.name, file) as kept:
        opened = _native.open_entries(codec, file.path, file.identity, may_grow, needed, kept.borders, *policy)
        kept.borders = opened.borders
    return opened


class EntriesReader:
    """A reader of several files in one format, whose chunks are numbered over all files. It implements
    `loader.formats.format.Reader`.

    Files are opened by 16 threads, to wait less for disks. Raises DataError for a file that is damaged from its
    beginning, unless `skip_damaged` is set and another file is usable.
    """

    def __init__(
        self,
        format: PositionFormat,
        files: Sequence[DataFile],
        *,
        may_grow: bool,
        skip_damaged: bool,
        needed: Sequence[str] = (),
        policy: BadDataPolicy = KEEP_ILLEGAL,
    ) -> None:
        """Opens the files. `needed` lists parts of an entry without which it counts as damage. `policy` says which data
        are left out."""

        def open_one(file: DataFile) -> tuple[DataFile, _native.EntryFile]:
            return file, open_file(format, file, may_grow=may_grow, needed=needed, policy=policy)

        # Opening a file needs several disk reads in a row, so several files are opened at once to wait less.
        with ThreadPoolExecutor(_OPENED_AT_ONCE) as pool:
            opening = {file.path: pool.submit(open_one, file) for file in files}
            opened = open_usable_files(files, lambda file: opening[file.path].result(), skip_damaged=skip_damaged)
        some_good = any(file.num_chunks and file.useless is None for _, file in opened)
        for _, file in opened:
            # A file is used up to its first damage; one that is damaged at its beginning is probably a mistake.
            if not (some_good and skip_damaged):
                raise_fault(cast("Fault | None", file.useless))
        self._files = opened
        self._ends = list(accumulate(file.num_chunks for _, file in opened))  # end of each file, in chunks of all files
        self.native = _native.FileReader([file for _, file in opened])

    @property
    def name(self) -> str:
        return self.native.name

    @property
    def num_chunks(self) -> int:
        return self.native.num_chunks

    def _chunk(self, chunk: int) -> tuple[DataFile, _native.EntryFile, int]:
        """Finds a chunk by its number over all files. Returns its file, the opened file, and the chunk's number there.
        The search is binary, because a table with an item for each chunk may have a million items."""
        index = bisect_right(self._ends, chunk)
        known, file = self._files[index]
        return known, file, chunk - self._ends[index] + file.num_chunks

    def place(self, chunk: int) -> Place:
        known, file, number = self._chunk(chunk)
        return Place(known.path, number, file.offset(number))

    def read(self, chunk: int) -> Iterator[Entry]:
        _, file, number = self._chunk(chunk)
        walk = _native.ChunkWalk(file, number)
        while lines := walk.lines(LINES_AT_ONCE):
            yield from map(parse_entry, lines.decode().splitlines())
        raise_fault(fault_of_walk(walk))

    def count(self, chunk: int) -> int:
        _, file, number = self._chunk(chunk)
        return _native.ChunkWalk(file, number).count()


def fault_of_walk(walk: _native.ChunkWalk) -> Fault | None:
    """Returns the fault at which a walk through a chunk ended, or None if it reached the chunk's end."""
    return cast("Fault | None", walk.fault)


def error_from_fault(fault: Fault) -> DataError:
    """Makes the exception for a fault: DataChangedError for a file that was changed, else DataError."""
    file, reason, offset, kind = fault
    return (DataChangedError if kind == "changed" else DataError)(file, reason, offset)


def raise_fault(fault: Fault | None) -> None:
    """Turns a fault that native code reported into a DataError and raises it. Does nothing for None."""
    if fault is not None:
        raise error_from_fault(fault)


def parse_skipped(kinds: Iterable[tuple[Any, ...]]) -> list[SkippedData]:
    """Converts tuples from native functions to `SkippedData`."""
    return [SkippedData(*kind) for kind in kinds]
