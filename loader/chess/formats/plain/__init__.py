"""The file format `plain` of Stockfish's tools: positions as text, with a line each for FEN, move, score, ply and
result."""

from __future__ import annotations

from functools import partial

from loader.chess.positions import file
from loader.chess.positions.format import PositionFormat, with_compressed

FAMILY = "chess"
SCORE_UNIT = "internal units"
SCORE_VIEW = RESULT_VIEW = "mover"
SUFFIXES = with_compressed(".plain")
DECODED = 1  # bytes of memory for a byte of file
LACKS = ()
FORMAT = PositionFormat("plain", LACKS)

recognizes = FORMAT.recognizes
open_files = partial(file.open_files, FORMAT)
open_with = partial(file.open_with, FORMAT)
whole_size = partial(file.whole_size, FORMAT)
