"""Counts how often each king bucket (a set of squares of the own king that shares weights) is used."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loader.chess.statistics.distribution import Counts

MIRRORED = 32  # size of a layout of files a to d, for which positions are mirrored


def bucket_counts(own: Counts, opponent: Counts, layout: Sequence[int]) -> list[int]:
    """Returns how often each king bucket is used, by the kings of both sides in all positions.

    `own` and `opponent` count kings by square, [64], from the side to move's view. `layout` is as
    `data.chess.king_buckets`.
    """
    squares = np.arange(64)
    kings = own + opponent[squares ^ 56]  # each as its own side sees the board
    files, ranks = squares % 8, squares // 8
    places = ranks * 4 + np.minimum(files, 7 - files) if len(layout) == MIRRORED else squares
    counts = np.bincount(np.asarray(layout)[places], weights=kings.astype(np.float64), minlength=max(layout) + 1)
    return [int(count) for count in counts]
