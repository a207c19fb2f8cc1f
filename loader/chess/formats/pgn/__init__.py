"""The file format `pgn`: games as people and match programs write them, with scores in comments of moves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from loader.chess.positions import file
from loader.chess.positions.format import PositionFormat, with_compressed
from loader.chess.positions.pgn_comments import NO_SETTINGS
from loader.files.identity import DataFile
from loader.stream.config import DataConfig

FAMILY = "chess"
SCORE_UNIT = "centipawns"
SCORE_VIEW = None  # each comment states its own
RESULT_VIEW = "white"
SUFFIXES = with_compressed(".pgn")
DECODED = 6  # bytes of memory for a byte of file: a move without comments has five letters
LACKS = ()
FORMAT = PositionFormat("pgn", LACKS, comments=NO_SETTINGS)

recognizes = FORMAT.recognizes
open_files = partial(file.open_files, FORMAT)
whole_size = partial(file.whole_size, FORMAT)


def open_with(config: DataConfig, files: Sequence[DataFile]) -> file.EntriesReader:
    """Opens PGN files as `loader.formats.format.ConfiguredFormat`, with comments read by the settings of
    [data.chess.pgn]."""
    return file.open_with(FORMAT.with_comments(config.settings.pgn.comments), config, files)
