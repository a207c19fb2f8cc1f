"""The file format `lichess_evals`: the evaluations that Lichess publishes, one position in JSON on each line."""

from __future__ import annotations

from functools import partial

from loader.chess.positions import file
from loader.chess.positions.format import PositionFormat, with_compressed

FAMILY = "chess"
SCORE_UNIT = "centipawns"
SCORE_VIEW = RESULT_VIEW = "white"
SUFFIXES = with_compressed(".jsonl")
DECODED = 1  # bytes of memory for a byte of file
LACKS = ()
FORMAT = PositionFormat("lichess_evals", LACKS, is_written=False)

recognizes = FORMAT.recognizes
open_files = partial(file.open_files, FORMAT)
open_with = partial(file.open_with, FORMAT)
whole_size = partial(file.whole_size, FORMAT)
