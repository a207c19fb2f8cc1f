"""Descriptions, for people, of how scores in comments of PGN files are read: whose view they have, and which moves have
none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from loader import _native
from loader.chess.description import MAX_FILES, cut_to_beginning, pick_evenly
from loader.chess.positions.file import BadDataPolicy, open_file
from loader.chess.positions.format import PositionFormat
from loader.chess.readers import FAMILY
from loader.chess.views import describe_comments_view
from loader.files.identity import DataFile
from loader.formats.readers import resolve_file_format
from loader.stream.config import DataConfig
from loader.stream.data_facts import DataFact

_SAMPLE_NBYTES = 1 << 20  # bytes that are read of each file


def describe_comments(config: DataConfig, files: Sequence[DataFile]) -> Iterator[DataFact]:
    """Yields facts about scores in comments of PGN files: whose view they have, how many moves have none, and why. Only
    the first MiB of at most 8 of the files is read. Raises DataError."""
    formats = [(file, getattr(resolve_file_format(config, file, FAMILY), "FORMAT", None)) for file in files]
    games = [(file, format) for file, format in formats if isinstance(format, PositionFormat) and format.comments]
    if not games:
        return
    settings = config.settings.pgn
    yield describe_comments_view(settings.view)
    sampled = pick_evenly(games, MAX_FILES)
    moves, unscored = 0, Counter[str]()
    for file, format in sampled:
        counted, reasons = _count_unscored(config, file, format)
        moves += counted
        unscored.update(reasons)
    where = f"in the first MiB of {len(sampled):,} of {len(games):,} PGN files"
    without = unscored.total()
    if not without:
        yield DataFact("scores", f"all {moves:,} moves have one, {where}")
        return
    yield DataFact("scores", f"{without:,} of {moves:,} moves have none, {where}:")
    yield from (DataFact("scores", f"  {reason}: {count:,}") for reason, count in unscored.most_common())


def _count_unscored(config: DataConfig, file: DataFile, format: PositionFormat) -> tuple[int, Counter[str]]:
    """Reads the chunks that begin in a file's first MiB, up to damage. Returns the number of moves, and the number
    without a score by the reason."""
    config, (beginning,) = cut_to_beginning(config, file)
    opened = open_file(
        format.with_comments(config.settings.pgn.comments),
        beginning,
        may_grow=config.may_grow,
        policy=BadDataPolicy(config.on_bad_data, every=False),
    )
    moves, unscored = 0, Counter[str]()
    for chunk in range(opened.num_chunks):
        if opened.offset(chunk) >= _SAMPLE_NBYTES:
            break
        walk = _native.ChunkWalk(opened, chunk)
        moves += walk.count()
        unscored.update(dict(walk.unscored))
    return moves, unscored
