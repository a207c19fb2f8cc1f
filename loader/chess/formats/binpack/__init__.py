"""The file format `binpack` of Stockfish's trainers: chains of consecutive positions, in chunks of about 1 MiB."""

from __future__ import annotations

import struct
from functools import partial

from loader.chess.filters import CHESS960
from loader.chess.positions import file
from loader.chess.positions.format import PositionFormat, with_compressed

FAMILY = "chess"
SCORE_UNIT = "internal units"
SCORE_VIEW = RESULT_VIEW = "mover"
SUFFIXES = with_compressed(".binpack")
FORMAT = PositionFormat("binpack", (CHESS960,), partial(struct.pack, "<4sI", b"BINP"))

recognizes = FORMAT.recognizes
open_files = partial(file.open_files, FORMAT)
open_with = partial(file.open_with, FORMAT)
whole_size = partial(file.whole_size, FORMAT)
