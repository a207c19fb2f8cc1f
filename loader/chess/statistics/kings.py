"""Squares of kings, and the buckets of a layout that they use."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loader.chess.statistics.distribution import Counts

MIRRORED = 32  # numbers of a layout of files a to d


def bucket_counts(own: Counts, opponent: Counts, layout: Sequence[int]) -> list[int]:
    """Counts how often each bucket's table is looked up: by both sides of each position.

    own, opponent: [64] by square as the side to move sees the board. layout: as `data.chess.king_buckets`.
    """
    squares = np.arange(64)
    kings = own + opponent[squares ^ 56]  # each as its own side sees the board
    files, ranks = squares % 8, squares // 8
    places = ranks * 4 + np.minimum(files, 7 - files) if len(layout) == MIRRORED else squares
    counts = np.bincount(np.asarray(layout)[places], weights=kings.astype(np.float64), minlength=max(layout) + 1)
    return [int(count) for count in counts]
