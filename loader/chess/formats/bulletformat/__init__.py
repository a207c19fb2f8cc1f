"""The file format `bulletformat` of the trainer bullet: a position in 32 bytes, from the side to move's view."""

from __future__ import annotations

from functools import partial

from loader.chess.filters import CASTLING, CLOCK, EN_PASSANT, MOVE, PLY, SIDE
from loader.chess.positions import file
from loader.chess.positions.format import PositionFormat, with_compressed

FAMILY = "chess"
SCORE_UNIT = "centipawns"
SCORE_VIEW = RESULT_VIEW = "mover"
SUFFIXES = with_compressed(".bf", ".bulletformat")
DECODED = 1  # bytes of memory for a byte of file
LACKS = (MOVE, PLY, SIDE, CASTLING, EN_PASSANT, CLOCK)
FORMAT = PositionFormat("bulletformat", LACKS)

recognizes = FORMAT.recognizes
open_files = partial(file.open_files, FORMAT)
open_with = partial(file.open_with, FORMAT)
whole_size = partial(file.whole_size, FORMAT)
