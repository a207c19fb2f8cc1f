"""Curves of the filters `keep_by_ply` and `piece_count`, evaluated for each ply or number of pieces."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

PIECES_APART = 8  # distance between the numbers of pieces for which a curve is given
CURVE_POINTS = 32 // PIECES_APART + 1  # number of points of such a curve
MAX_PLY = 65535


def chances_by_ply(points: Sequence[float]) -> list[float]:
    """Evaluates the chance to keep a position for each ply, by straight lines between points (ply, chance, ply, chance,
    ...).

    Returns chances for ply 0 up to the ply after the last point. Before the first point its chance holds. Returns an
    empty list without points. Raises ValueError unless the points are pairs with ascending plies and chances from 0 to
    1.
    """
    plies, chances = points[::2], points[1::2]
    if len(plies) != len(chances):
        raise ValueError("an odd number of numbers; needed are pairs of ply and chance")
    if any(ply >= next_ply for ply, next_ply in pairwise(plies)):
        raise ValueError("the plies do not ascend")
    if any(not 0 <= ply <= MAX_PLY for ply in plies) or any(not 0 <= chance <= 1 for chance in chances):
        raise ValueError(f"a ply is a number from 0 to {MAX_PLY}, and a chance one from 0 to 1")
    if not points:
        return []
    return [_interpolate(plies, chances, ply) for ply in range(int(plies[-1]) + 2)]


def shares_by_piece_count(points: Sequence[float]) -> list[float]:
    """Evaluates a cubic spline through the shares given for 0, 8, 16, 24 and 32 pieces. Returns shares for 0 to 32
    pieces, 33 numbers, none below 0.

    The spline is Hermite's. Its slope at a point is that of the line between the two neighbouring points (as in
    nnue-pytorch).
    """
    last = CURVE_POINTS - 1
    slopes = []
    for i in range(CURVE_POINTS):
        before, after = max(i - 1, 0), min(i + 1, last)
        slopes.append((points[after] - points[before]) / (after - before))
    shares = []
    for count in range(33):
        i = min(count // PIECES_APART, last - 1)
        t = (count - PIECES_APART * i) / PIECES_APART
        t2, t3 = t * t, t * t * t
        value = (2 * t3 - 3 * t2 + 1) * points[i] + (t3 - 2 * t2 + t) * slopes[i]
        value += (3 * t2 - 2 * t3) * points[i + 1] + (t3 - t2) * slopes[i + 1]
        shares.append(max(0.0, value))
    return shares


def _interpolate(plies: Sequence[float], chances: Sequence[float], ply: int) -> float:
    """Interpolates the chance at a ply. Outside the points it is that of the nearest point."""
    if ply <= plies[0]:
        return chances[0]
    for i in range(len(plies) - 1):
        if ply <= plies[i + 1]:
            t = (ply - plies[i]) / (plies[i + 1] - plies[i])
            return min(1.0, max(0.0, chances[i] + t * (chances[i + 1] - chances[i])))
    return chances[-1]
