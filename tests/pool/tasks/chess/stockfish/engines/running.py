"""Stockfish 19 with any network, and 18 and 17.1 with their own, under node."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.pool.tasks.chess.stockfish.engines.packages import package
from tests.pool.tasks.chess.stockfish.support import Engine

_EVALUATE = Path(__file__).with_name("evaluate.mjs")


def values_of_19(net: Path, fens: Sequence[str]) -> list[int]:
    """Internal units, the side to move's view. No position may be in check."""
    script = package("@lichess-org/stockfish-web@0.5.0") / "sf_19.js"
    command = ["node", str(_EVALUATE), str(script), str(net)]
    text = "".join(f"{fen}\n" for fen in fens)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=280)
    values = [int(line) for line in done.stdout.split()]
    assert len(values) == len(fens), (done.returncode, done.stderr[-1000:])
    return values


def engine_18() -> Engine:
    return Engine("node", str(package("stockfish@18.0.8") / "bin/stockfish-18-single.js"))


def engine_17() -> Engine:
    return Engine("node", str(package("stockfish@17.1.0") / "src/stockfish-17.1-single-a496a04.js"))
