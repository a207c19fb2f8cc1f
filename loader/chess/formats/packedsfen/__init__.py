"""The format `packedsfen`: PackedSfenValue of nodchip's and old Stockfish's trainers, an entry in 40 bytes."""

from __future__ import annotations

from loader.chess.filters import CHESS960
from loader.chess.positions.format import PositionFormat, with_packed

FAMILY = "chess"
SCORE_UNIT = "internal units"
SUFFIXES = with_packed(".psv", ".bin")
DECODED = 1  # bytes of memory for a byte of file
LACKS = (CHESS960,)
FORMAT = PositionFormat("packedsfen", LACKS)

recognizes = FORMAT.recognizes
open_files = FORMAT.open_files
open_with = FORMAT.open_with
whole_size = FORMAT.whole_size
verify = FORMAT.verify
inspect = FORMAT.inspect
dump = FORMAT.dump
