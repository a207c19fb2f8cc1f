"""The file format `montyvalue` of Monty's value networks: whole games, with four bytes for a move and its score."""

from __future__ import annotations

from functools import partial

from loader.chess.positions import file
from loader.chess.positions.format import PositionFormat, with_compressed

FAMILY = "chess"
SCORE_UNIT = "centipawns"
SCORE_VIEW = RESULT_VIEW = "white"
SUFFIXES = with_compressed(".montyvalue")
DECODED = 8  # bytes of memory for a byte of file
LACKS = ()
FORMAT = PositionFormat("montyvalue", LACKS)

recognizes = FORMAT.recognizes
open_files = partial(file.open_files, FORMAT)
open_with = partial(file.open_with, FORMAT)
whole_size = partial(file.whole_size, FORMAT)
