"""The file format `text`: lines `FEN | score | result`, from White's view."""

from __future__ import annotations

from functools import partial

from loader.chess.filters import MOVE
from loader.chess.positions import file
from loader.chess.positions.format import PositionFormat, with_compressed

FAMILY = "chess"
SCORE_UNIT = "centipawns"
SCORE_VIEW = RESULT_VIEW = "white"
SUFFIXES = with_compressed(".txt")
DECODED = 1  # bytes of memory for a byte of file
LACKS = (MOVE,)
FORMAT = PositionFormat("text", LACKS)

recognizes = FORMAT.recognizes
open_files = partial(file.open_files, FORMAT)
open_with = partial(file.open_with, FORMAT)
whole_size = partial(file.whole_size, FORMAT)
