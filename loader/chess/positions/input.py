"""Files to be read by tools: opened, read chunk by chunk as whole units or as the bytes of another format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from loader import _native
from loader.chess.filters import MOVE
from loader.chess.positions.entry import Entry, entry_of
from loader.chess.positions.file import (
    KEPT,
    LINES_AT_ONCE,
    BadDataRule,
    Judged,
    error_of,
    fault_behind,
    left_out_of,
    open_file,
    raise_fault,
)
from loader.chess.positions.format import PositionFormat, input_format, refuse_unused
from loader.chess.positions.pgn_comments import NO_SETTINGS, PgnComments
from loader.chess.positions.units import FoundBlock, UnitBlock, block_of, joined
from loader.errors import DataChangedError, DataError, UsageError
from loader.files.identity import DataFile, identify
from loader.files.pipes import input_of
from loader.formats.errors import Fault
from loader.formats.file_tools import Illegal
from loader.formats.parallel import map_chunks, map_in_order
from loader.stream.left_out import LeftOut, LeftOutChunks, damaged_chunk, total

T = TypeVar("T")
Tick = Callable[[int, int], None]  # bytes of the files done, and all of them; may raise to stop
Changes = Counter[str]  # positions that were written otherwise than they are, by what was done
# Units, what was left out, whether some lost entries, and entries without a score by the reason.
_FoundUnits = tuple[FoundBlock, list[tuple[Any, ...]], bool, list[tuple[str, int]]]
Piece = tuple["SourceFile", int]  # a chunk: what reads it, and its number there


def silent(_done: int, _all: int) -> None:
    """A Tick."""


class Source(Protocol):
    """Positions of one format, from a file or a pipe."""

    @property
    def path(self) -> Path: ...

    @property
    def format(self) -> PositionFormat: ...

    @property
    def size(self) -> int:
        """Bytes; 0: not known."""

    @property
    def changes(self) -> Changes:
        """Counts of what was changed in all that has been written so far."""

    @property
    def left_out(self) -> LeftOutChunks:
        """Holds what was left out of the chunks read so far."""

    @property
    def is_empty(self) -> bool:
        """True if there are no chunks."""

    def chunks(self, first: int = 0) -> Iterator[Piece]:
        """Yields the chunks from `first` on; of a pipe once. They may be read by several threads, and after later ones
        have been asked for."""

    def offset(self, chunk: int) -> int:
        """Bytes before a chunk, about."""

    def check_end(self) -> None:
        """Raises DataError if the chunks end early."""

    def call_while_waiting(self, check: Callable[[], object]) -> None:
        """`check` is called now and then while nothing comes out of a pipe, and may raise."""


@dataclass(frozen=True)
class SourceFile:
    """A `Source` whose chunks can be read in any order, again and again."""

    path: Path
    format: PositionFormat
    opened: _native.EntryFile
    known: DataFile | None = None  # as it was when it was opened; None: what has come out of a pipe
    rule: BadDataRule = KEPT
    scale: float = 1.0  # of the scores, where they are written in another format or with it
    changes: Changes = field(default_factory=Counter, compare=False)
    left_out: LeftOutChunks = field(default_factory=LeftOutChunks, compare=False)
    first_chunk: int = 0  # number of its first chunk among all that `left_out` is of

    @property
    def size(self) -> int:
        return self.opened.size

    @property
    def num_chunks(self) -> int:
        return self.opened.num_chunks

    @property
    def is_empty(self) -> bool:
        return self.num_chunks == 0

    def chunks(self, first: int = 0) -> Iterator[Piece]:
        return ((self, chunk) for chunk in range(first, self.num_chunks))

    def offset(self, chunk: int) -> int:
        return self.size if chunk >= self.num_chunks else self.opened.offset(chunk)

    def read_units(self, chunk: int) -> UnitBlock:
        """Returns a chunk's units with the bytes that they have, without those that are left out. Raises DataError at
        damage."""
        return self.read_units_and_reasons(chunk)[0]

    def read_units_and_reasons(self, chunk: int) -> tuple[UnitBlock, Changes]:
        """Reads units as `read_units`; counts entries without a score by the reason, as `copy_to`."""
        found, kinds, cuts_units, unscored = cast(_FoundUnits, _native.read_units(self.opened, chunk))
        if self._is_skipped(chunk, found[3], int(found[2].sum())):
            return joined([]), Counter()
        block = block_of(found)
        self.left_out.record(self.first_chunk + chunk, left_out_of(kinds))
        reasons = Counter(dict(unscored))
        if not cuts_units:
            return block, reasons
        writer = self.format.make_writer()
        self.copy_to(chunk, writer)
        writer.finish()
        return units_of_file(self.format, writer.take()), reasons

    def walk(self, chunk: int) -> _native.ChunkWalk | None:
        """Begins a walk through a chunk; None if all of it is left out."""
        walk = _native.ChunkWalk(self.opened, chunk)
        if self.rule.skips:
            samples = walk.count()  # what was read before damage may be invented
            if self._is_skipped(chunk, fault_behind(walk), samples):
                return None
            self.left_out.record(self.first_chunk + chunk, left_out_of(walk.left_out))
            walk.rewind()
        return walk

    def _is_skipped(self, chunk: int, fault: Fault | None, samples: int) -> bool:
        """Tells whether a chunk is left out for the fault in it, and records it then."""
        if fault is None or not self.rule.skips or fault[3] != "damaged":
            return False
        file, reason, offset, _ = fault
        self.left_out.record(self.first_chunk + chunk, [damaged_chunk(file, reason, offset, samples)])
        return True

    def copy_to(self, chunk: int, writer: _native.EntryWriter) -> Changes:
        """Adds a chunk's entries; counts those without a score by the reason, of formats that know one. Raises
        DataError at damage, and for an entry that the writer's format can't hold."""
        if (walk := self.walk(chunk)) is None:
            return Counter()
        raise_fault(cast("Fault | None", walk.copy_to(writer, self.scale)))
        return Counter(dict(walk.unscored))

    def count(self, chunk: int) -> int:
        """A chunk's entries, up to damage."""
        return _native.ChunkWalk(self.opened, chunk).count()

    def judged(self, chunk: int) -> Judged:
        """A chunk's entries, and those that were left out, up to damage."""
        walk = _native.ChunkWalk(self.opened, chunk)
        entries, fault = walk.count(), fault_behind(walk)
        kinds = left_out_of(walk.left_out)
        illegal = tuple(Illegal(each.kind, each.samples, each.offset, each.reason) for each in kinds)
        return Judged(entries, illegal, None if fault is None else error_of(fault))

    def lines(self, chunk: int, limit: int | None = None) -> Iterator[bytes]:
        """A chunk's entries, the first `limit` of them, as blocks of lines: FEN, move, score, ply, result, tab
        separated. Raises DataError at damage, after those before it."""
        left = limit
        if (walk := self.walk(chunk)) is None:
            return
        while block := walk.lines(LINES_AT_ONCE if left is None else min(left, LINES_AT_ONCE)):
            left = None if left is None else left - block.count(b"\n")
            yield block
        if left != 0:
            raise_fault(fault_behind(walk))

    def entries(self, chunk: int) -> Iterator[Entry]:
        """Yields a chunk's entries. Raises DataError at damage, after those before it."""
        for lines in self.lines(chunk):
            yield from map(entry_of, lines.decode().splitlines())

    def check_end(self) -> None:
        """Raises DataChangedError for a file that is not what it was when it was opened."""
        if change := self.opened.change:
            raise DataChangedError(self.path, change)

    def call_while_waiting(self, check: Callable[[], object]) -> None:
        """Nothing is waited for."""


def open_sources(
    paths: Sequence[Path],
    given: str | None = None,
    *,
    needed: Sequence[str] = (),
    rule: BadDataRule = KEPT,
    comments: PgnComments = NO_SETTINGS,
) -> list[SourceFile]:
    """Files that are read more than once, so no pipes. `given`: their format, where they do not say it. An entry
    that lacks a part of `needed` is damage. Raises UsageError, DataError."""
    inputs = [input_of(path) for path in paths]
    for each in inputs:
        if each.is_pipe:
            raise UsageError(
                f"{each.path}: is a pipe, which can be read once, and here a file is needed: write it to one first, "
                "with loader convert - -o FILE"
            )
    files = identify([each.path for each in inputs])
    sources = [open_source(file, given, needed=needed, rule=rule, comments=comments) for file in files]
    refuse_unused(comments, [source.format for source in sources])
    return sources


def open_source(
    file: DataFile,
    option: str | None,
    *,
    needed: Sequence[str],
    rule: BadDataRule = KEPT,
    indexed: bool = True,
    scale: float = 1.0,
    comments: PgnComments = NO_SETTINGS,
) -> SourceFile:
    """Opens a file; `option`: its format, if the file does not say it; `indexed`: as for `open_file`.
    Raises UsageError, DataError."""
    format = input_format(file.path, option).with_comments(comments)
    opened = open_file(format, file, indexed=indexed, needed=needed, rule=rule)
    return SourceFile(file.path, format, opened, file, rule, scale)


def whole_size(sources: Sequence[Source]) -> int:
    """Bytes; 0: not known."""
    sizes = [source.size for source in sources]
    return sum(sizes) if all(sizes) else 0


def all_units(
    sources: Sequence[Source], target: PositionFormat, threads: int, tick: Tick = silent
) -> Iterator[UnitBlock]:
    """Yields the positions of files, one after another, as units of the target's format. Raises DataError."""
    whole = whole_size(sources)
    before = done = 0
    for source in sources:
        for block, done in units_of(source, target, threads):
            yield block
            tick(before + done, whole)
        before, done = before + done, 0


def units_of(source: Source, target: PositionFormat, threads: int) -> Iterator[tuple[UnitBlock, int]]:
    """Blocks, and how many bytes of the file are done after each. Raises DataError."""
    for block, following in units_from(source, target, threads):
        yield block, source.offset(following)
    source.check_end()


def units_from(source: Source, target: PositionFormat, threads: int, first: int = 0) -> Iterator[tuple[UnitBlock, int]]:
    """From chunk `first` on: the units of some chunks, and the chunk behind them. Raises DataError."""

    def units(pieces: Sequence[Piece]) -> tuple[UnitBlock, Changes]:
        if (unchanged := _unchanged(source, target, pieces)) is not None:
            return unchanged
        encoded, changes = _encoded(pieces, target)
        return units_of_file(target, encoded), changes

    return _by_chunks(source, target, threads, first, units)


def bytes_from(source: Source, target: PositionFormat, threads: int) -> Iterator[tuple[bytes, int]]:
    """Yields the positions as bytes of the target's format, whose files have no chunk headers, and the chunk behind
    them."""

    def data(pieces: Sequence[Piece]) -> tuple[bytes, Changes]:
        if (unchanged := _unchanged(source, target, pieces)) is not None:
            return unchanged[0].bytes.tobytes(), unchanged[1]
        return _encoded(pieces, target)

    return _by_chunks(source, target, threads, 0, data)


def map_sources(
    function: Callable[[int, int], T], sources: Sequence[SourceFile], threads: int
) -> Iterator[tuple[int, int, T]]:
    """Yields file, chunk and function(file, chunk) of all chunks, in order. Raises DataError for a file whose chunks
    end early, behind them."""
    for file, source in enumerate(sources):
        for chunk, result in enumerate(map_chunks(partial(function, file), source.num_chunks, threads)):
            yield file, chunk, result
        source.check_end()


def parted_by_chunks(source: PositionFormat, target: PositionFormat) -> bool:
    """Tells whether each chunk ends with a whole unit of the target. Only entries that have moves can follow one
    another, and chunks of files of games end with games."""
    return not target.keeps_games or source.keeps_games or MOVE in source.lacks


def _together(source: PositionFormat, target: PositionFormat) -> int:
    """Chunks that are written together: a game that goes on behind them is cut in two."""
    return 1 if source == target or parted_by_chunks(source, target) else 16


def _by_chunks(
    source: Source,
    target: PositionFormat,
    threads: int,
    first: int,
    done: Callable[[Sequence[Piece]], tuple[T, Changes]],
) -> Iterator[tuple[T, int]]:
    """Yields done(pieces) of each group of chunks written together, from `first` on, and the chunk behind it."""
    chunks = source.chunks(first)
    groups = iter(lambda: list(islice(chunks, _together(source.format, target))), [])
    behind = first
    for (found, changes), count in map_in_order(lambda pieces: (done(pieces), len(pieces)), groups, threads):
        source.changes.update(changes)
        behind += count
        yield found, behind


def _unchanged(source: Source, target: PositionFormat, pieces: Sequence[Piece]) -> tuple[UnitBlock, Changes] | None:
    """A chunk as it is, and what is to be said of it, if it is of the target's format and nothing of it is changed."""
    if source.format != target:
        return None
    ((file, chunk),) = pieces
    if file.scale != 1:
        return None
    block, reasons = file.read_units_and_reasons(chunk)
    return block, _missing_scores(reasons)


def _missing_scores(reasons: Counter[str]) -> Changes:
    return Counter({f"no score, {reason}": count for reason, count in reasons.items()})


def _encoded(pieces: Sequence[Piece], target: PositionFormat) -> tuple[bytes, Changes]:
    writer = target.make_writer()
    changes = Changes()
    for file, chunk in pieces:
        changes.update(_missing_scores(file.copy_to(chunk, writer)))
    writer.finish()
    changes.update(dict(writer.changes))
    return writer.take(), changes


def units_of_file(target: PositionFormat, encoded: bytes) -> UnitBlock:
    """The units of what a writer of the format has written."""
    return block_of(_native.cut_units(target.codec, np.frombuffer(encoded, np.uint8)))


def expected_bytes(sources: Sequence[Source], target: PositionFormat) -> int:
    """Estimates the size of the files in the target's format from the first chunk of each; pipes count as nothing.
    Raises DataError for damage in one that is in that format already."""
    total = 0.0
    for source in sources:
        if not isinstance(source, SourceFile) or source.is_empty:
            continue
        if source.format == target:
            made = len(source.read_units(0).bytes)
        else:
            writer = target.make_writer()
            with suppress(DataError):  # which those who write it raise, unless they leave that entry out
                source.copy_to(0, writer)
            writer.finish()
            made = len(writer.take())
        total += made * source.size / max(source.offset(1), 1)
    return int(total)


def changes_of(sources: Sequence[Source]) -> Changes:
    return sum((source.changes for source in sources), Changes())


def left_out_of_all(sources: Sequence[Source]) -> Sequence[LeftOut]:
    """Returns what was left out of all of them, by kind."""
    return total(kind for source in sources for kind in source.left_out.totals())


def refuse_empty(sources: Sequence[Source]) -> None:
    """Raises DataError if there is nothing in any of them."""
    for source in sources:
        if source.is_empty:
            source.check_end()
    if all(source.is_empty for source in sources):
        raise DataError(", ".join(str(source.path) for source in sources[:3]), "there is nothing to read")
