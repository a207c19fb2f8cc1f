"""The format `marlinformat` of marlinflow: a position in 32 bytes."""

from __future__ import annotations

from loader.chess.filters import MOVE
from loader.chess.positions.format import PositionFormat, with_packed

FAMILY = "chess"
SCORE_UNIT = "centipawns"
SUFFIXES = with_packed(".marlin", ".marlinformat")
DECODED = 1  # bytes of memory for a byte of file
LACKS = (MOVE,)
FORMAT = PositionFormat("marlinformat", LACKS)

recognizes = FORMAT.recognizes
open_files = FORMAT.open_files
open_with = FORMAT.open_with
whole_size = FORMAT.whole_size
verify = FORMAT.verify
inspect = FORMAT.inspect
dump = FORMAT.dump
