"""The file format `packedsfen`, PackedSfenValue of nodchip's and Stockfish's old trainers: a position in 40 bytes."""

from __future__ import annotations

from functools import partial

from loader.chess.filters import CHESS960
from loader.chess.positions import file
from loader.chess.positions.format import PositionFormat, with_compressed

FAMILY = "chess"
SCORE_UNIT = "internal units"
SCORE_VIEW = RESULT_VIEW = "mover"
SUFFIXES = with_compressed(".psv", ".bin")
DECODED = 1  # bytes of memory for a byte of file
LACKS = (CHESS960,)
FORMAT = PositionFormat("packedsfen", LACKS)

recognizes = FORMAT.recognizes
open_files = partial(file.open_files, FORMAT)
open_with = partial(file.open_with, FORMAT)
whole_size = partial(file.whole_size, FORMAT)
