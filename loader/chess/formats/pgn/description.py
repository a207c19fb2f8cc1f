"""Descriptions of how scores in PGN are read, for people: whose they are, and which moves have none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from loader import _native
from loader.chess.formats import pgn
from loader.chess.positions.file import BadDataRule, open_file
from loader.chess.readers import format_of
from loader.files.identity import DataFile
from loader.formats.readers import name_of
from loader.stream.config import DataConfig
from loader.stream.data_facts import DataFact

_MOST_FILES = 8  # that are looked into
_LOOKED_AT = 1 << 20  # bytes of each


def describe_comments(config: DataConfig, files: Sequence[DataFile]) -> Iterator[DataFact]:
    """Yields whose scores the comments of PGN files have, and how many moves have none and why, by a look at the
    beginnings of some of them. Raises DataError."""
    games = [file for file in files if name_of(config, format_of(config, file)) == pgn.FORMAT.name]
    if not games:
        return
    settings = config.settings.pgn
    whose = "White's" if settings.view == "white" else "the mover's"
    yield DataFact("score view", f"{whose} in comments of PGN; White's in [%eval] and wv=")
    looked_at = games[:: -(-len(games) // _MOST_FILES)]
    moves, unscored = 0, Counter[str]()
    for file in looked_at:
        counted, reasons = _count_unscored(config, file)
        moves += counted
        unscored.update(reasons)
    where = f"the first MiB of {len(looked_at):,} of {len(games):,} PGN files"
    yield DataFact("scores", f"{text_of(moves, unscored)}; looked at: {where}")


def text_of(moves: int, unscored: Counter[str]) -> str:
    """Says how many moves have no score, and why, the most frequent reason first."""
    without = unscored.total()
    if not without:
        return f"all {moves:,} moves have a score"
    reasons = "; ".join(f"{reason}: {count:,}" for reason, count in unscored.most_common())
    return f"{without:,} of {moves:,} moves have none ({reasons})"


def _count_unscored(config: DataConfig, file: DataFile) -> tuple[int, Counter[str]]:
    """Counts moves of a file's first MiB, up to damage, and those without a score by the reason."""
    opened = open_file(
        pgn.FORMAT.with_comments(config.settings.pgn.comments),
        file,
        may_grow=config.may_grow,
        rule=BadDataRule(config.on_bad_data, every=False),
    )
    moves, unscored = 0, Counter[str]()
    for chunk in range(opened.num_chunks):
        if opened.offset(chunk) >= _LOOKED_AT:
            break
        walk = _native.ChunkWalk(opened, chunk)
        moves += walk.count()
        unscored.update(dict(walk.unscored))
    return moves, unscored
