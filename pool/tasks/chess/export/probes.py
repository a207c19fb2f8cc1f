"""Positions to compare two forms of a network on: any pieces on any squares, so that many weights take part."""

from __future__ import annotations

import random
from collections.abc import Iterator

from pool.tasks.chess.positions import Inputs, Position, read_fen

_SQUARES = 64
_PIECES = "PpNnBbRrQq"
_COUNT = 64


def probe_positions(inputs: Inputs, count: int = _COUNT) -> list[Position]:
    """The same whenever they are asked for; every number of pieces from 2 to 32, as far as `count` reaches."""
    return [read_fen(fen, inputs) for fen in probe_fens(count)]


def probe_fens(count: int) -> Iterator[str]:
    pick = random.Random(1)
    for number in range(count):
        squares = pick.sample(range(_SQUARES), 2 + number % 31)
        board = dict(zip(squares, ["K", "k", *pick.choices(_PIECES, k=len(squares) - 2)], strict=True))
        for square, piece in board.items():
            if piece in "Pp" and not 8 <= square < _SQUARES - 8:
                board[square] = {"P": "N", "p": "n"}[piece]
        yield f"{_placement(board)} {'wb'[number % 2]} - - 0 1"


def _placement(board: dict[int, str]) -> str:
    ranks = []
    for rank in range(7, -1, -1):
        line = "".join(board.get(8 * rank + file, ".") for file in range(8))
        for empty in range(8, 0, -1):
            line = line.replace("." * empty, str(empty))
        ranks.append(line)
    return "/".join(ranks)
