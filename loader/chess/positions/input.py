"""Sources of positions for tools: opened files, read chunk by chunk as whole units or converted to another format.

A chunk is what is decoded at once, about 1 MiB of a file. A unit is what tools move whole: a record, a line, a game or
a chain of a `.binpack`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import numpy as np

from loader import _native
from loader.chess.filters import MOVE
from loader.chess.positions.entry import Entry, parse_entry
from loader.chess.positions.file import (
    KEEP_ILLEGAL,
    LINES_AT_ONCE,
    BadDataPolicy,
    ChunkCheck,
    error_from_fault,
    fault_of_walk,
    open_file,
    parse_skipped,
    raise_fault,
)
from loader.chess.positions.format import PositionFormat, input_format, refuse_unused_comments
from loader.chess.positions.pgn_comments import NO_SETTINGS, PgnComments
from loader.chess.positions.units import NativeBlock, UnitBlock, concatenate, unit_block
from loader.errors import DataChangedError, DataError, UsageError
from loader.files.identity import DataFile, identify
from loader.files.pipes import resolve_input
from loader.formats.errors import Fault
from loader.formats.file_tools import IllegalEntries
from loader.formats.format import OnProgress
from loader.formats.parallel import map_chunks, map_in_order
from loader.stream.skipped_data import SkippedChunks, SkippedData, add_up_skipped, skipped_chunk

T = TypeVar("T")
Changes = Counter[str]  # number of positions that were changed while they were written, by the kind of change
# The result of `_native.read_units`: units, what was left out, whether a unit lost some of its entries, and the number
# of missing scores by the reason.
_NativeUnits = tuple[NativeBlock, list[tuple[Any, ...]], bool, list[tuple[str, int]]]


def ignore_progress(_done: int, _total: int) -> None:
    """Reports no progress. The default of parameters `on_progress`."""


class SourceChunk(NamedTuple):
    """A chunk of a source: the file that reads it, and its number in that file."""

    file: SourceFile
    number: int


class Source(Protocol):
    """Positions of one format, from a file or a pipe. Files and pipes of all commands that read positions implement
    it."""

    @property
    def path(self) -> Path: ...

    @property
    def format(self) -> PositionFormat: ...

    @property
    def size(self) -> int:
        """Returns the size in bytes, or 0 if it is not known, as of a pipe."""

    @property
    def changes(self) -> Changes:
        """Returns how many positions were changed while they were written, by the kind of change."""

    @property
    def skipped(self) -> SkippedChunks:
        """Returns the record of what was left out of the chunks read so far."""

    @property
    def is_empty(self) -> bool:
        """Returns True if there are no chunks."""

    def chunks(self, first: int = 0) -> Iterator[SourceChunk]:
        """Yields the chunks from number `first` on. A pipe can be read once. Several threads may read the chunks, also
        after later chunks have been requested."""

    def offset(self, chunk: int) -> int:
        """Returns about how many bytes lie before a chunk."""

    def check_end(self) -> None:
        """Checks that the chunks read were all that there is. Raises DataError if the source ended too early or was
        changed since it was opened."""

    def call_while_waiting(self, check: Callable[[], object]) -> None:
        """Sets a function that is called now and then while a pipe sends nothing. It may raise an exception to stop the
        command."""


@dataclass(frozen=True)
class SourceFile:
    """A file as a `Source`, whose chunks can be read in any order and repeatedly. Also holds one chunk of a pipe."""

    path: Path
    format: PositionFormat
    opened: _native.EntryFile
    data_file: DataFile | None = None  # the file as it was identified; None: a chunk of a pipe
    policy: BadDataPolicy = KEEP_ILLEGAL
    scale: float = 1.0  # factor of the scores, applied when entries are written
    changes: Changes = field(default_factory=Counter, compare=False)
    skipped: SkippedChunks = field(default_factory=SkippedChunks, compare=False)
    first_chunk: int = 0  # number of the first chunk among all chunks that `skipped` records

    @property
    def size(self) -> int:
        return self.opened.size

    @property
    def num_chunks(self) -> int:
        return self.opened.num_chunks

    @property
    def is_empty(self) -> bool:
        return self.num_chunks == 0

    def chunks(self, first: int = 0) -> Iterator[SourceChunk]:
        return (SourceChunk(self, chunk) for chunk in range(first, self.num_chunks))

    def offset(self, chunk: int) -> int:
        return self.size if chunk >= self.num_chunks else self.opened.offset(chunk)

    def read_units(self, chunk: int) -> UnitBlock:
        """Returns the units of a chunk as encoded in the file, without those that are left out. Raises DataError at
        damage."""
        return self.read_units_and_reasons(chunk)[0]

    def read_units_and_reasons(self, chunk: int) -> tuple[UnitBlock, Changes]:
        """Returns the units of a chunk, as `read_units`, and how many entries have no score, by the reason."""
        units, skipped, has_cut_units, unscored = cast(_NativeUnits, _native.read_units(self.opened, chunk))
        _, _, entries_of_units, fault = units
        if self._skip_damaged(chunk, fault, int(entries_of_units.sum())):
            return concatenate([]), Counter()
        block = unit_block(units)
        self.skipped.record(self.first_chunk + chunk, parse_skipped(skipped))
        reasons = Counter(dict(unscored))
        if not has_cut_units:
            return block, reasons
        writer = self.format.make_writer()
        self.copy_to(chunk, writer)
        writer.finish()
        return split_into_units(self.format, writer.take()), reasons

    def walk(self, chunk: int) -> _native.ChunkWalk | None:
        """Starts decoding a chunk. Returns None if the whole chunk is left out because it is damaged."""
        walk = _native.ChunkWalk(self.opened, chunk)
        if not self.policy.skips:
            return walk
        samples = walk.count()
        # Entries before damage may be garbage, so the whole chunk is skipped.
        if self._skip_damaged(chunk, fault_of_walk(walk), samples):
            return None
        self.skipped.record(self.first_chunk + chunk, parse_skipped(walk.left_out))
        walk.rewind()
        return walk

    def _skip_damaged(self, chunk: int, fault: Fault | None, samples: int) -> bool:
        """Records a damaged chunk as left out, if --on-bad-data says skip. Returns True if the chunk is left out."""
        if fault is None or not self.policy.skips:
            return False
        file, reason, offset, kind = fault
        if kind != "damaged":
            return False
        self.skipped.record(self.first_chunk + chunk, [skipped_chunk(file, reason, offset, samples)])
        return True

    def copy_to(self, chunk: int, writer: _native.EntryWriter) -> Changes:
        """Adds the entries of a chunk to a writer. Returns how many of them have no score, by the reason, for formats
        that state one. Raises DataError at damage, and for an entry that the writer's format can't store."""
        walk = self.walk(chunk)
        if walk is None:
            return Counter()
        raise_fault(cast("Fault | None", walk.copy_to(writer, self.scale)))
        return Counter(dict(walk.unscored))

    def count(self, chunk: int) -> int:
        """Returns the number of entries in a chunk, up to damage."""
        return _native.ChunkWalk(self.opened, chunk).count()

    def check_chunk(self, chunk: int) -> ChunkCheck:
        """Counts the legal and the illegal entries of a chunk, up to damage."""
        walk = _native.ChunkWalk(self.opened, chunk)
        entries = walk.count()
        fault = fault_of_walk(walk)
        damage = None if fault is None else error_from_fault(fault)
        illegal = [
            IllegalEntries(kind.kind, kind.samples, kind.offset, kind.reason) for kind in parse_skipped(walk.left_out)
        ]
        return ChunkCheck(entries, tuple(illegal), damage)

    def lines(self, chunk: int, limit: int | None = None) -> Iterator[bytes]:
        """Yields the entries of a chunk, `limit` at most, as blocks of text lines: FEN, move, score, ply and result,
        separated by tabs. Raises DataError at damage, after the entries before the damage."""
        walk = self.walk(chunk)
        if walk is None:
            return
        remaining = limit
        while True:
            block = walk.lines(LINES_AT_ONCE if remaining is None else min(remaining, LINES_AT_ONCE))
            if not block:
                break
            if remaining is not None:
                remaining -= block.count(b"\n")
            yield block
        if remaining != 0:
            raise_fault(fault_of_walk(walk))

    def entries(self, chunk: int) -> Iterator[Entry]:
        """Yields the entries of a chunk. Raises DataError at damage, after the entries before the damage."""
        for lines in self.lines(chunk):
            yield from map(parse_entry, lines.decode().splitlines())

    def check_end(self) -> None:
        """Checks that the file was not changed since it was opened. Raises DataChangedError."""
        change = self.opened.change
        if change:
            raise DataChangedError(self.path, change)

    def call_while_waiting(self, check: Callable[[], object]) -> None:
        """Does nothing, because a file never makes its reader wait."""


def open_sources(
    paths: Sequence[Path],
    option: str | None = None,
    *,
    needed: Sequence[str] = (),
    policy: BadDataPolicy = KEEP_ILLEGAL,
    comments: PgnComments = NO_SETTINGS,
) -> list[SourceFile]:
    """Opens files that a command reads more than once. Pipes are refused.

    `option` is the format of files whose format can't be determined. An entry that lacks a part listed in `needed`
    counts as damage. Raises UsageError, DataError.
    """
    inputs = [resolve_input(path) for path in paths]
    for input_ in inputs:
        if input_.is_pipe:
            raise UsageError(
                f"{input_.path}: is a pipe, which can be read once, and here a file is needed: write it to one first, "
                "with loader convert - -o FILE"
            )
    files = identify([input_.path for input_ in inputs])
    sources = [open_source(file, option, needed=needed, policy=policy, comments=comments) for file in files]
    refuse_unused_comments(comments, [source.format for source in sources])
    return sources


def open_source(
    file: DataFile,
    option: str | None,
    *,
    needed: Sequence[str],
    policy: BadDataPolicy = KEEP_ILLEGAL,
    indexed: bool = True,
    scale: float = 1.0,
    comments: PgnComments = NO_SETTINGS,
) -> SourceFile:
    """Opens an identified file as a source of positions.

    `option` is the format, if the file's name and content do not show it. `indexed` is passed to `open_file`. `scale`
    multiplies scores when they are written. Raises UsageError, DataError.
    """
    format = input_format(file.path, option).with_comments(comments)
    opened = open_file(format, file, indexed=indexed, needed=needed, policy=policy)
    return SourceFile(file.path, format, opened, file, policy, scale)


def total_size(sources: Sequence[Source]) -> int:
    """Returns the size in bytes of all sources together, or 0 if one of them is not known."""
    sizes = [source.size for source in sources]
    return sum(sizes) if all(sizes) else 0


def read_all_units(
    sources: Sequence[Source], target: PositionFormat, threads: int, on_progress: OnProgress = ignore_progress
) -> Iterator[UnitBlock]:
    """Yields the positions of all sources, one source after another, as units of the target format. Reports progress to
    `on_progress`. Raises DataError."""
    num_bytes = total_size(sources)
    bytes_of_done_sources = 0
    for source in sources:
        done = 0
        for block, done in read_source_units(source, target, threads):
            yield block
            on_progress(bytes_of_done_sources + done, num_bytes)
        bytes_of_done_sources += done


def read_source_units(source: Source, target: PositionFormat, threads: int) -> Iterator[tuple[UnitBlock, int]]:
    """Yields the positions of a source as blocks of units of the target format, each with the number of bytes of the
    source that are done after it. Raises DataError."""
    for block, following in read_units_from(source, target, threads):
        yield block, source.offset(following)
    source.check_end()


def read_units_from(
    source: Source, target: PositionFormat, threads: int, first: int = 0
) -> Iterator[tuple[UnitBlock, int]]:
    """Yields the positions of a source from chunk `first` on, as blocks of units of the target format, each with the
    number of the chunk that follows. Raises DataError."""

    def convert_to_units(chunks: Sequence[SourceChunk]) -> tuple[UnitBlock, Changes]:
        unchanged = _read_unchanged(source, target, chunks)
        if unchanged is not None:
            return unchanged
        encoded, changes = _encode(chunks, target)
        return split_into_units(target, encoded), changes

    return _convert_groups(source, target, threads, first, convert_to_units)


def read_encoded_from(source: Source, target: PositionFormat, threads: int) -> Iterator[tuple[bytes, int]]:
    """Yields the positions of a source as bytes of the target format, each block with the number of the chunk that
    follows. The target must be a format without chunk headers."""

    def convert_to_bytes(chunks: Sequence[SourceChunk]) -> tuple[bytes, Changes]:
        unchanged = _read_unchanged(source, target, chunks)
        if unchanged is not None:
            block, changes = unchanged
            return block.bytes.tobytes(), changes
        return _encode(chunks, target)

    return _convert_groups(source, target, threads, 0, convert_to_bytes)


def map_sources(
    function: Callable[[int, int], T], sources: Sequence[SourceFile], threads: int
) -> Iterator[tuple[int, int, T]]:
    """Calls function(file, chunk) for all chunks of all files, on several threads. Yields file number, chunk number and
    result, in order. Raises DataError after the last chunk of a file that was changed."""
    for file, source in enumerate(sources):
        for chunk, result in enumerate(map_chunks(partial(function, file), source.num_chunks, threads)):
            yield file, chunk, result
        source.check_end()


def converts_by_chunk(source: PositionFormat, target: PositionFormat) -> bool:
    """Tells whether chunks of a source format can be converted one by one, without cutting a game of the target format
    in two.

    That holds for targets without games, for sources without moves (their entries can't be linked to games), and for
    sources that store games, whose chunks end with whole games.
    """
    return not target.keeps_games or source.keeps_games or MOVE in source.lacks


def _chunks_per_group(source: PositionFormat, target: PositionFormat) -> int:
    """Returns the number of chunks that are converted together. A game that goes on after the last of them is cut in
    two, so there are 16 where a chunk may end within a game."""
    if source == target or converts_by_chunk(source, target):
        return 1
    return 16


def _convert_groups(
    source: Source,
    target: PositionFormat,
    threads: int,
    first: int,
    convert: Callable[[Sequence[SourceChunk]], tuple[T, Changes]],
) -> Iterator[tuple[T, int]]:
    """Applies `convert` to groups of chunks that are converted together, on several threads. Yields each result with
    the number of the chunk that follows. Adds the counted changes to the source."""

    def convert_group(group: Sequence[SourceChunk]) -> tuple[T, Changes, int]:
        result, changes = convert(group)
        return result, changes, len(group)

    chunks = source.chunks(first)
    group_size = _chunks_per_group(source.format, target)
    groups = iter(lambda: list(islice(chunks, group_size)), [])
    next_chunk = first
    for result, changes, count in map_in_order(convert_group, groups, threads):
        source.changes.update(changes)
        next_chunk += count
        yield result, next_chunk


def _read_unchanged(
    source: Source, target: PositionFormat, chunks: Sequence[SourceChunk]
) -> tuple[UnitBlock, Changes] | None:
    """Reads the units of one chunk as encoded in the file, with the changes to report, if the target format and the
    scores are the same. Returns None if entries must be converted."""
    if source.format != target:
        return None
    ((file, chunk),) = chunks  # chunks of the same format are read one by one
    if file.scale != 1:
        return None
    block, reasons = file.read_units_and_reasons(chunk)
    return block, _missing_scores(reasons)


def _missing_scores(reasons: Counter[str]) -> Changes:
    """Converts counts of missing scores by reason to changes that are reported to the user."""
    return Counter({f"no score, {reason}": count for reason, count in reasons.items()})


def _encode(chunks: Sequence[SourceChunk], target: PositionFormat) -> tuple[bytes, Changes]:
    """Converts chunks to bytes of the target format. Returns them, and the changes to report."""
    writer = target.make_writer()
    changes = Changes()
    for file, chunk in chunks:
        changes.update(_missing_scores(file.copy_to(chunk, writer)))
    writer.finish()
    changes.update(dict(writer.changes))
    return writer.take(), changes


def split_into_units(target: PositionFormat, encoded: bytes) -> UnitBlock:
    """Splits a file's bytes, as a writer of the target format made them, into units."""
    return unit_block(_native.cut_units(target.codec, np.frombuffer(encoded, np.uint8)))


def estimate_bytes(sources: Sequence[Source], target: PositionFormat) -> int:
    """Estimates the size in bytes of the sources in the target format, from the first chunk of each file. Pipes count
    as 0 bytes. Raises DataError for damage in the first chunk of a file that has the target format already."""
    estimate = 0.0
    for source in sources:
        if isinstance(source, SourceFile) and not source.is_empty:
            first_chunk_bytes = max(source.offset(1), 1)
            estimate += _converted_size(source, target) * source.size / first_chunk_bytes
    return int(estimate)


def _converted_size(source: SourceFile, target: PositionFormat) -> int:
    """Returns the size in bytes of a file's first chunk in the target format."""
    if source.format == target:
        return len(source.read_units(0).bytes)
    writer = target.make_writer()
    with suppress(DataError):  # the writing itself reports an entry that the target can't store
        source.copy_to(0, writer)
    writer.finish()
    return len(writer.take())


def sum_changes(sources: Sequence[Source]) -> Changes:
    """Returns how many positions of all sources were changed while they were written, by the kind of change."""
    return sum((source.changes for source in sources), Changes())


def sum_skipped(sources: Sequence[Source]) -> Sequence[SkippedData]:
    """Returns what was left out of all sources, by kind."""
    return add_up_skipped(kind for source in sources for kind in source.skipped.totals())


def refuse_empty(sources: Sequence[Source]) -> None:
    """Refuses sources that are all empty. Raises DataError."""
    for source in sources:
        if source.is_empty:
            source.check_end()
    if all(source.is_empty for source in sources):
        raise DataError(", ".join(str(source.path) for source in sources[:3]), "there is nothing to read")
