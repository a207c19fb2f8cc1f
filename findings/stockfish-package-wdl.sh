#!/usr/bin/env bash
# stockfish 5.2.0 (the Python package), Stockfish 15.1: set_turn_perspective(False) turns scores, but not win/draw/loss.
#
# Guess: both are White's afterwards; set_turn_perspective is described as that of centipawns and WDL.
# Seen: with White a queen up and Black to move the score becomes White's, some +900, and get_wdl_stats() stays
#   [0, 0, 1000], Black's certain loss. (The description of get_wdl_stats speaks of the side to move.)
# Matters: targets that mix the two have the wrong sign in every second position.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
install_debian stockfish
install_python stockfish==5.2.0
python - <<'PYTHON'
import importlib.metadata
import shutil
import sys

from stockfish import Stockfish

engine = Stockfish(shutil.which("stockfish"), depth=8, turn_perspective=False)
engine.set_fen_position("4k3/8/8/8/8/8/4P3/3QK3 b - - 0 1")
score, chances = engine.get_evaluation(), engine.get_wdl_stats()
print("version: stockfish", importlib.metadata.version("stockfish"))
print("guess: a score above 0 and [1000, 0, 0], both White's")
print("seen:", score, chances)
sys.exit(not (score["type"] == "cp" and score["value"] > 500 and chances == [0, 0, 1000]))
PYTHON
