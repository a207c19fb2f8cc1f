"""Which units of a file are of one game: chains of a binpack file, where a tool has broken the game or left some of its
positions out, and what became of them in another format.

No format says so. What tells a new game is that its first ply is not behind the last one of the unit before, or that it
has another result; all else may be the same game. So a game is never taken for two as long as its units follow one
another in the file. Two games may be taken for one, which does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.chess.positions.kind import Kind
from loader.chess.positions.units import UnitBlock

_RECORD = np.dtype(  # chess/native/record.h, without the board
    {
        "names": ["ply", "result", "flags"],
        "formats": ["<u2", "i1", "u1"],
        "offsets": [26, 30, 31],
        "itemsize": 32,
    }
)
_BLACK = 1  # of the flags: to move
FIRST: Sequence[int] = (-1, 0)  # before a file: the last ply of its last unit, and White's result


def begins_of_games(kind: Kind, block: UnitBlock, before: Sequence[int]) -> tuple[npt.NDArray[np.bool_], Sequence[int]]:
    """Of each unit, whether a game begins with it; and what is `before` the next block's."""
    if not kind.keeps_games or not len(block):
        return np.ones(len(block), np.bool_), before
    records = (
        _native.first_of_chains(block.bytes, block.begins)
        if kind.is_binpack
        else _native.first_entries(kind.codec, block.bytes, block.begins)
    )
    fields = records.view(_RECORD)[:, 0]
    plies = fields["ply"].astype(np.int64)
    results = np.where(fields["flags"] & _BLACK, -fields["result"], fields["result"]).astype(np.int64)
    last = plies + block.entries.astype(np.int64) - 1
    last_before = np.concatenate([[before[0]], last[:-1]])
    result_before = np.concatenate([[before[1]], results[:-1]])
    new = (plies <= last_before) | (results != result_before) | (last_before < 0)
    return new, (int(last[-1]), int(results[-1]))
