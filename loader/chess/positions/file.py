"""Files of positions, opened for the stream, and what native code says of their damage. Native code does the work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

from loader import _native
from loader.chess.filters import PLY, needs
from loader.chess.positions.entry import Entry, entry_of
from loader.chess.positions.format import PositionFormat
from loader.chess.positions.game_index import kept_borders
from loader.errors import DataChangedError, DataError
from loader.files.identity import DataFile
from loader.formats.errors import Fault
from loader.formats.format import Illegal, Place
from loader.formats.opening import usable
from loader.stream.config import DataConfig

LINES_AT_ONCE = 4096


class IllegalRule(NamedTuple):
    """The way to treat positions that no game can have."""

    on_bad_data: str | None  # as data.on_bad_data; None: they are kept
    every: bool  # all are judged; else of a game or chain the first


KEPT, REFUSED, LEFT_OUT = IllegalRule(None, False), IllegalRule("stop", True), IllegalRule("skip", True)


@dataclass(frozen=True)
class Judged:
    """A chunk, up to damage."""

    entries: int  # legal ones
    illegal: tuple[Illegal, ...] = ()
    damage: DataError | None = None


def open_files(
    format: PositionFormat, files: Sequence[DataFile], may_grow: bool, skip_damaged: bool
) -> EntriesReader | BinpackReader:
    """Opens files as `loader.formats.format.Format.open_files`."""
    if format.is_binpack:
        return BinpackReader(files, may_grow=may_grow, skip_damaged=skip_damaged)
    return EntriesReader(format, files, may_grow=may_grow, skip_damaged=skip_damaged)


def open_with(format: PositionFormat, config: DataConfig, files: Sequence[DataFile]) -> EntriesReader | BinpackReader:
    """Opens files as `loader.formats.format.ConfiguredFormat.open_with`."""
    skip = config.on_bad_data == "skip"
    if format.is_binpack:
        return BinpackReader(files, may_grow=config.may_grow, skip_damaged=skip, on_illegal=config.on_bad_data)
    return EntriesReader(
        format,
        files,
        may_grow=config.may_grow,
        skip_damaged=skip,
        needs_ply=any(need.part == PLY for need in needs(config.settings.filters)),
        illegal=IllegalRule(config.on_bad_data, every=False),
    )


def whole_size(format: PositionFormat, file: DataFile) -> int:
    """Returns the size in bytes without a last record, line, game or chunk that has no end yet."""
    if not format.is_binpack:
        return open_file(format, file, may_grow=True).whole_size
    opened = _native.BinpackFile(file.path, file.identity, may_grow=True)
    if opened.header_damage is None or not opened.ends_in_a_chunk:
        return file.size
    return opened.header_damage.offset


def open_file(
    format: PositionFormat,
    file: DataFile,
    *,
    indexed: bool = True,
    may_grow: bool = False,
    needs_ply: bool = False,
    illegal: IllegalRule = KEPT,
) -> _native.EntryFile:
    """Opens the file that was identified; another one in its place is refused, here and whenever it is read. `indexed`:
    where games begin may be known from before, and is kept beside the file. Raises DataError."""
    if format.lines:
        return _native.open_text(file.path, file.identity, may_grow, needs_ply, *illegal)
    codec = format.codec
    if not codec.has_games or not indexed:
        return _native.open_entries(codec, file.path, file.identity, may_grow, needs_ply, None, *illegal)
    with kept_borders(format.name, file) as kept:
        opened = _native.open_entries(codec, file.path, file.identity, may_grow, needs_ply, kept.borders, *illegal)
        kept.borders = opened.borders
    return opened


class EntriesReader:
    """`loader.formats.format.Reader`."""

    def __init__(
        self,
        format: PositionFormat,
        files: Sequence[DataFile],
        *,
        may_grow: bool,
        skip_damaged: bool,
        needs_ply: bool = False,
        illegal: IllegalRule = KEPT,
    ) -> None:
        def open_one(file: DataFile) -> tuple[DataFile, _native.EntryFile]:
            return file, open_file(format, file, may_grow=may_grow, needs_ply=needs_ply, illegal=illegal)

        opened = usable(files, open_one, skip_damaged=skip_damaged)
        self._chunks = [(file, known, chunk) for known, file in opened for chunk in range(file.num_chunks)]
        self.native = _native.FileReader([file for _, file in opened])

    @property
    def name(self) -> str:
        return self.native.name

    @property
    def num_chunks(self) -> int:
        return self.native.num_chunks

    def place(self, chunk: int) -> Place:
        file, known, number = self._chunks[chunk]
        return Place(known.path, number, file.offset(number))

    def read(self, chunk: int) -> Iterator[Entry]:
        file, _, number = self._chunks[chunk]
        walk = _native.ChunkWalk(file, number)
        while lines := walk.lines(LINES_AT_ONCE):
            yield from map(entry_of, lines.decode().splitlines())
        raise_fault(fault_behind(walk))

    def count(self, chunk: int) -> int:
        file, _, number = self._chunks[chunk]
        return _native.ChunkWalk(file, number).count()


class BinpackReader:
    """`loader.formats.format.Reader`. A damaged chunk header and what is behind it count as one chunk."""

    def __init__(
        self, files: Sequence[DataFile], *, may_grow: bool, skip_damaged: bool, on_illegal: str | None = None
    ) -> None:
        self._files = [
            (known, _native.BinpackFile(known.path, known.identity, may_grow, on_illegal)) for known in files
        ]
        usable = any(file.num_chunks for _, file in self._files)
        for known, file in self._files:
            # A file damaged further on is used up to there; one with nothing before it can't be meant.
            if file.num_chunks == 0 and file.header_damage is not None and not (usable and skip_damaged):
                raise DataError(known.path, file.header_damage.reason, file.header_damage.offset)
        self._places = list(_places(self._files))
        self.native = _native.BinpackReader([file for _, file in self._files])

    @property
    def name(self) -> str:
        return self.native.name

    @property
    def num_chunks(self) -> int:
        return self.native.num_chunks

    def place(self, chunk: int) -> Place:
        return self._places[chunk][1]

    def read(self, chunk: int) -> Iterator[Entry]:
        file, place = self._places[chunk]
        if file.header_damage is not None and place.chunk == file.num_chunks:
            raise damage_error(place.file, file.header_damage, in_chunk=False)
        printer = _native.ChunkPrinter(file, place.chunk)
        while lines := printer.lines(LINES_AT_ONCE):
            yield from map(entry_of, lines.decode().splitlines())
        if printer.damage is not None:
            raise damage_error(place.file, printer.damage, in_chunk=True)

    def count(self, chunk: int) -> int:
        file, place = self._places[chunk]
        return file.count(place.chunk)[0] if place.chunk < file.num_chunks else 0


def _places(files: Sequence[tuple[DataFile, _native.BinpackFile]]) -> Iterator[tuple[_native.BinpackFile, Place]]:
    for known, file in files:
        for chunk in range(file.num_chunks):
            yield file, Place(known.path, chunk, file.chunk(chunk)[0])
        if file.header_damage is not None:
            yield file, Place(known.path, file.num_chunks, file.header_damage.offset)


def fault_behind(walk: _native.ChunkWalk) -> Fault | None:
    """Returns the fault behind what was read, if there is one."""
    return cast("Fault | None", walk.fault)


def error_of(fault: Fault) -> DataError:
    file, reason, offset, kind = fault
    return (DataChangedError if kind == "changed" else DataError)(file, reason, offset)


def judge_chunk(file: _native.EntryFile, chunk: int) -> Judged:
    """Judges a chunk of a file that was opened with LEFT_OUT."""
    walk = _native.ChunkWalk(file, chunk)
    entries, fault = walk.count(), fault_behind(walk)
    return Judged(entries, illegal_of(walk.illegal), None if fault is None else error_of(fault))


def raise_fault(fault: Fault | None) -> None:
    """Raises what a native reader says, if that is anything."""
    if fault is not None:
        raise error_of(fault)


def illegal_of(kinds: Iterable[tuple[str, int, int | None, str]]) -> tuple[Illegal, ...]:
    """Turns what native functions give into `Illegal`."""
    return tuple(Illegal(*kind) for kind in kinds)


def damage_error(path: Path | str, damage: _native.Damage, in_chunk: bool) -> DataError:
    """Turns a binpack file's damage into an error; inside a chunk its offset is that of the chain's stem."""
    reason = f"{damage.reason} (entry {damage.entry_in_chain} of its chain)" if in_chunk else damage.reason
    return DataError(path, reason, damage.offset)


def judge_binpack_chunk(path: Path | str, file: _native.BinpackFile, chunk: int) -> Judged:
    """Raises DataError for a chunk that can't be read any more."""
    entries, illegal, damage = file.judge(chunk)
    error = None if damage is None else damage_error(path, damage, in_chunk=True)
    return Judged(entries, illegal_of(illegal), error)
