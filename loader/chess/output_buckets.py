"""Rules by name that choose a network's output for a position, by its number of pieces."""

from __future__ import annotations

import math

MAX_PIECES = 32
PATTERN = "^(single|stockfish|material_count_([2-8]|11|16))$"  # of a rule's name


def buckets_by_pieces(rule: str) -> list[int]:
    """[33]: the output bucket of each number of pieces, kings included; 0 for those that no position has.

    single: all 0. stockfish: (pieces - 1) / 4, 8 buckets. material_count_N: (pieces - 2) / ceil(32 / N), as bullet's
    MaterialCount<N>; for other N than those allowed there would be buckets that no position is for.
    """
    counts = range(MAX_PIECES + 1)
    if rule == "single":
        return [0] * len(counts)
    if rule == "stockfish":
        return [max(0, pieces - 1) // 4 for pieces in counts]
    width = math.ceil(MAX_PIECES / int(rule.removeprefix("material_count_")))
    return [max(0, pieces - 2) // width for pieces in counts]


def num_buckets(rule: str) -> int:
    return max(buckets_by_pieces(rule)) + 1
