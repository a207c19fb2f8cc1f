"""The decoded form of one position of training data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NO_SCORE = 32002  # the score of a position that has none
NO_RESULT = -128  # in arrays: the result of a position that has none
UNKNOWN = "none"  # how `loader dump` prints a ply or result that is not known

View = Literal["mover", "white"]  # the side for which a positive score or result is an advantage


@dataclass(frozen=True)
class Entry:
    """A chess position with its score, the move played in it, and the result of its game."""

    fen: str
    move: str  # UCI
    score: int  # in the file's unit, from the side to move's point of view; or NO_SCORE
    ply: int | None  # None: not known
    result: int | None  # result of the game for the side to move: -1, 0, 1; None: not known


def parse_entry(line: str) -> Entry:
    """Parses a line of `loader dump` into an entry. The line has FEN, move, score, ply and result, separated by
    tabs."""
    fen, move, score, ply, result = line.split("\t")
    return Entry(fen, move, int(score), _number(ply), _number(result))


def _number(text: str) -> int | None:
    return None if text == UNKNOWN else int(text)
