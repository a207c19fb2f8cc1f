"""Defines HalfKAv2_hm, the feature set that every version of Stockfish's network has. Free of torch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

INPUTS = 22_528  # 32 king buckets x 11 planes x 64 squares
VIRTUAL = 768  # 12 planes x 64 squares: what HalfKAv2_hm^ adds, numbered from INPUTS on
KING_BUCKETS = 32
PLANES = 11
SQUARES = 64
KING_PLANE = 10  # both kings; among the virtual planes own king 10, enemy king 11
PIECES = ("pawn", "knight", "bishop", "rook", "queen")  # each has two planes, 0 and 1, 2 and 3, ...: own, opponent's


def king_bucket(rank: int, file: int) -> int:
    """Returns the bucket of the own king on this square. Ranks are counted from the own side, and files are 4 to 7 (e
    to h)."""
    return (7 - rank) * 4 + 7 - file


def planes() -> npt.NDArray[np.int64]:
    """Returns the plane (piece type and colour) of each input, [INPUTS]."""
    of_inputs: npt.NDArray[np.int64] = np.arange(INPUTS) // SQUARES % PLANES
    return of_inputs


def virtual_features() -> npt.NDArray[np.int64]:
    """Returns the virtual feature (0 .. VIRTUAL - 1) that belongs to each real feature, [INPUTS].

    It has the same plane and square, without the king bucket. Both kings share a plane of the real features. The own
    king is the one on the square that the king bucket stands for.
    """
    feature = np.arange(INPUTS)
    square = feature % SQUARES
    plane = feature // SQUARES % PLANES
    king_bucket = feature // (SQUARES * PLANES)
    own_king = (7 - king_bucket // 4) * 8 + 7 - king_bucket % 4
    enemy_king = (plane == KING_PLANE) & (square != own_king)
    virtual: npt.NDArray[np.int64] = (plane + enemy_king) * SQUARES + square
    return virtual
