"""The format `pgn`: games as people and match programs write them, with scores in comments."""

from __future__ import annotations

from functools import partial

from loader.chess.positions import file
from loader.chess.positions.format import PositionFormat, with_packed

FAMILY = "chess"
SCORE_UNIT = "centipawns"
SCORE_VIEW = None  # a comment's own
RESULT_VIEW = "white"
SUFFIXES = with_packed(".pgn")
DECODED = 6  # bytes of memory for a byte of file: a move without comments has five letters
LACKS = ()
FORMAT = PositionFormat("pgn", LACKS)

recognizes = FORMAT.recognizes
open_files = partial(file.open_files, FORMAT)
open_with = partial(file.open_with, FORMAT)
whole_size = partial(file.whole_size, FORMAT)
