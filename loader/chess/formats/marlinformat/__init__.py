"""The file format `marlinformat` of the trainer marlinflow: a position in 32 bytes, from White's view."""

from __future__ import annotations

from functools import partial

from loader.chess.filters import MOVE
from loader.chess.positions import file
from loader.chess.positions.format import PositionFormat, with_compressed

FAMILY = "chess"
SCORE_UNIT = "centipawns"
SCORE_VIEW = RESULT_VIEW = "white"
SUFFIXES = with_compressed(".marlin", ".marlinformat")
DECODED = 1  # bytes of memory for a byte of file
LACKS = (MOVE,)
FORMAT = PositionFormat("marlinformat", LACKS)

recognizes = FORMAT.recognizes
open_files = partial(file.open_files, FORMAT)
open_with = partial(file.open_with, FORMAT)
whole_size = partial(file.whole_size, FORMAT)
