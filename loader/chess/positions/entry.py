"""One entry of training data for chess."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NO_SCORE = 32002  # the score of a position that has none
NO_RESULT = -128  # in arrays, likewise of a result
UNKNOWN = "none"  # what `loader dump` prints

View = Literal["mover", "white"]  # of scores and results: whose advantage a positive one is


@dataclass(frozen=True)
class Entry:
    """A position, the move recorded in it, and what came of it."""

    fen: str
    move: str  # UCI
    score: int  # internal units of the engine, side to move's point of view; or NO_SCORE
    ply: int | None  # None: not known
    result: int | None  # of the game for the side to move: -1, 0, 1; None: not known


def entry_of(line: str) -> Entry:
    """Makes an entry of a line that `loader dump` prints: FEN, move, score, ply, result, tab separated."""
    fen, move, score, ply, result = line.split("\t")
    return Entry(fen, move, int(score), _number(ply), _number(result))


def _number(text: str) -> int | None:
    return None if text == UNKNOWN else int(text)
