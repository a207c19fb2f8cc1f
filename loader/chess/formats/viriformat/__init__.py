"""The format `viriformat` of Viridithas: games, of which a move and its score take four bytes."""

from __future__ import annotations

from loader.chess.positions.format import PositionFormat, with_packed

FAMILY = "chess"
SCORE_UNIT = "centipawns"
SUFFIXES = with_packed(".viri", ".viriformat", ".vf")
DECODED = 8  # bytes of memory for a byte of file
LACKS = ()
FORMAT = PositionFormat("viriformat", LACKS)

recognizes = FORMAT.recognizes
open_files = FORMAT.open_files
open_with = FORMAT.open_with
whole_size = FORMAT.whole_size
verify = FORMAT.verify
inspect = FORMAT.inspect
dump = FORMAT.dump
