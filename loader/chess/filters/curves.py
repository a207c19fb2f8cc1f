"""Curves of filters, worked out for each ply or number of pieces."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

PIECES_APART = 8  # of the numbers of pieces that a curve of piece counts is given for
COUNTED = 32 // PIECES_APART + 1  # of these numbers
MOST_PLY = 65535


def chances_by_ply(points: Sequence[float]) -> list[float]:
    """[up to the last ply + 1]: straight lines between points (ply, chance, ply, chance, ...); before the first one its
    chance. Raises ValueError for what are no such points."""
    plies, chances = points[::2], points[1::2]
    if len(plies) != len(chances):
        raise ValueError("an odd number of numbers; needed are pairs of ply and chance")
    if any(later <= sooner for sooner, later in pairwise(plies)):
        raise ValueError("the plies do not ascend")
    if any(not 0 <= ply <= MOST_PLY for ply in plies) or any(not 0 <= chance <= 1 for chance in chances):
        raise ValueError(f"a ply is a number from 0 to {MOST_PLY}, and a chance one from 0 to 1")
    if not points:
        return []
    return [_between(plies, chances, ply) for ply in range(int(plies[-1]) + 2)]


def shares_by_piece_count(given: Sequence[float]) -> list[float]:
    """[33]: a cubic spline through the shares given for 0, 8, 16, 24 and 32 pieces, none below 0.

    The spline is Hermite's; its slope at a point is that of the line between the points beside it (as nnue-pytorch's).
    """
    last = COUNTED - 1
    slopes = [(given[min(i + 1, last)] - given[max(i - 1, 0)]) / (1 if i in (0, last) else 2) for i in range(COUNTED)]
    shares = []
    for count in range(33):
        i = min(count // PIECES_APART, last - 1)
        t = (count - PIECES_APART * i) / PIECES_APART
        t2, t3 = t * t, t * t * t
        value = (2 * t3 - 3 * t2 + 1) * given[i] + (t3 - 2 * t2 + t) * slopes[i]
        value += (3 * t2 - 2 * t3) * given[i + 1] + (t3 - t2) * slopes[i + 1]
        shares.append(max(0.0, value))
    return shares


def _between(plies: Sequence[float], chances: Sequence[float], ply: int) -> float:
    if ply <= plies[0]:
        return chances[0]
    for i in range(len(plies) - 1):
        if ply <= plies[i + 1]:
            t = (ply - plies[i]) / (plies[i + 1] - plies[i])
            return min(1.0, max(0.0, chances[i] + t * (chances[i + 1] - chances[i])))
    return chances[-1]
