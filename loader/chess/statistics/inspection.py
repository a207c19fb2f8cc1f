"""Counts the statistics of a file in one pass, chunk by chunk on several threads. Native code does the counting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from queue import Empty, SimpleQueue

from loader import _native
from loader.chess.filters import FilterConfig, needed_parts
from loader.chess.positions.file import KEEP_ILLEGAL, BadDataPolicy
from loader.chess.positions.input import Source, SourceChunk, ignore_progress
from loader.chess.positions.inputs import open_input
from loader.chess.positions.pgn_comments import NO_SETTINGS, PgnComments
from loader.chess.statistics.filter_counts import FilterCount, NamedFilter, count_left, filters_to_count
from loader.chess.statistics.statistics import FileFacts, FileStatistics
from loader.chess.tools.filter import refuse_lacking
from loader.errors import DataError
from loader.files.pipes import Input
from loader.formats.format import OnProgress
from loader.formats.parallel import map_in_order


def open_inspected(
    path: Path | Input,
    filters: FilterConfig | None,
    option: str | None = None,
    comments: PgnComments = NO_SETTINGS,
    policy: BadDataPolicy = KEEP_ILLEGAL,
) -> Source:
    """Opens a file or pipe whose positions are to be counted.

    `option` is the format, if the file does not show it. `comments` says how scores in PGN are read. Raises UsageError
    if a filter needs what the format does not store. Raises DataError, OSError.
    """
    needed = () if filters is None else needed_parts(filters)
    source = open_input(path, option, needed=needed, policy=policy, comments=comments)
    if filters is not None:
        refuse_lacking([source], filters)
    return source


def inspect_source(
    source: Source,
    filters: FilterConfig | None = None,
    seed: int = 0,
    king_buckets: Sequence[int] = (),
    threads: int = 1,
    on_progress: OnProgress | None = None,
) -> FileStatistics:
    """Reads every entry of a source and returns its statistics. The result does not depend on the number of threads.

    With `filters`, also counts the entries that each filter would leave in a training stream of this file. Raises
    DataError at damage, with the number of good entries before it.
    """
    inspection = _Inspection(source, filters_to_count(filters, seed))
    inspection.run(threads, on_progress or ignore_progress)
    format = source.format
    unit = format.units.removesuffix("s") if format.keeps_games else None
    size = source.size or source.offset(inspection.chunks)
    facts = FileFacts(
        str(source.path),
        format.name,
        format.lacks,
        size,
        inspection.chunks,
        unit,
        format.score_unit,
        format.view_of("score"),
        format.view_of("result"),
        format.comments,
    )
    return FileStatistics(
        facts,
        inspection.total(),
        tuple(king_buckets),
        inspection.left(),
        inspection.unscored,
        source.skipped.totals(),
    )


class _Inspection:
    """The counting of one file. Each thread counts with a census of its own, and all are added in the end."""

    def __init__(self, source: Source, filters: Sequence[NamedFilter]) -> None:
        self._source = source
        self._filters = filters
        self._left = [0] * len(filters)
        self._entries = 0
        self.unscored = Counter[str]()  # number of positions without a score, by the reason
        self.chunks = 0  # number of chunks counted
        self._idle: SimpleQueue[_native.Census] = SimpleQueue()

    def run(self, threads: int, on_progress: OnProgress) -> None:
        """Counts all chunks of the source. Raises DataError at damage, with the number of good entries before it."""
        source = self._source
        for entries, left, unscored, damage in map_in_order(self._count, enumerate(source.chunks()), threads):
            self.chunks += 1
            self.unscored.update(unscored)
            self._entries += entries
            self._left = [before + more for before, more in zip(self._left, left, strict=True)]
            if damage is not None:
                raise self._shown(damage)
            on_progress(source.offset(self.chunks), source.size)
        try:
            source.check_end()
        except DataError as damage:
            raise self._shown(damage) from None

    def total(self) -> _native.Census:
        """Returns the sum of the censuses of all threads. Can be called once."""
        total = _native.Census()
        while not self._idle.empty():
            total.add_census(self._idle.get())
        return total

    def left(self) -> list[FilterCount]:
        """Returns the number of entries that each filter leaves."""
        return [
            FilterCount(each.name, each.setting, left) for each, left in zip(self._filters, self._left, strict=True)
        ]

    def _count(self, work: tuple[int, SourceChunk]) -> tuple[int, list[int], Counter[str], DataError | None]:
        """Counts a chunk. Returns its number of entries, how many each filter leaves, how many have no score by the
        reason, and the damage or None."""
        number, (file, chunk) = work
        census = self._take_census()
        before = census.entries
        unscored, damage = Counter[str](), None
        try:
            unscored = file.copy_to(chunk, census)
        except DataError as error:
            damage = error
        census.finish()
        left = count_left(self._filters, census.take_records(), number) if self._filters else []
        entries = census.entries - before
        self._idle.put(census)
        return entries, left, unscored, damage

    def _take_census(self) -> _native.Census:
        """Returns a census that no other thread uses at present."""
        try:
            return self._idle.get_nowait()
        except Empty:
            return _native.Census(keeps_records=bool(self._filters))

    def _shown(self, damage: DataError) -> DataError:
        """Adds the number of good entries before the damage to an error, as `loader verify` does."""
        if damage.offset is None:
            return damage
        reason = f"{damage.reason}; {self._entries:,} good entries before it"
        return type(damage)(damage.file, reason, damage.offset)
