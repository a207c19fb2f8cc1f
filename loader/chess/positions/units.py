"""Records, lines, games and chains as bytes: what tools move whole, without turning it into something else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.chess.positions.file import raise_fault
from loader.chess.positions.format import PositionFormat
from loader.formats.errors import Fault

_RECORD = np.dtype(  # chess/native/record.h, without the board
    {
        "names": ["ply", "flags"],
        "formats": ["<u2", "<u2"],
        "offsets": [26, 30],
        "itemsize": 32,
    }
)
_BLACK = 1  # of the flags: to move
_RESULTS = np.array([0, 1, -128, -1], np.int8)  # by the flags' bits 2 and 3
FIRST: Sequence[int] = (-1, 0)  # before a file: the last ply of its last unit, and White's result

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.uint64]
FoundBlock = tuple[Bytes, Numbers, npt.NDArray[np.uint32], Fault | None]  # of a native function


@dataclass(frozen=True)
class UnitBlock:
    """Units one behind the other. Each is good: it has been decoded once."""

    bytes: Bytes
    ends: Numbers  # of each in `bytes`
    entries: npt.NDArray[np.uint32]  # of each

    def __len__(self) -> int:
        return len(self.ends)

    @cached_property
    def begins(self) -> Numbers:
        begins = np.zeros_like(self.ends)
        begins[1:] = self.ends[:-1]
        return begins

    def take(self, order: npt.NDArray[Any]) -> UnitBlock:
        """Units of these numbers, in that order."""
        order = np.ascontiguousarray(order, np.uint64)
        gathered = cast(Bytes, _native.gather_units(self.bytes, self.begins, self.ends, order))
        sizes = self.ends[order] - self.begins[order]
        return UnitBlock(gathered, np.cumsum(sizes, dtype=np.uint64), self.entries[order])

    def part(self, begin: int, end: int) -> UnitBlock:
        """Units `begin` to `end`, without a copy of their bytes."""
        first = int(self.ends[begin - 1]) if begin else 0
        last = int(self.ends[end - 1]) if end else 0
        return UnitBlock(self.bytes[first:last], self.ends[begin:end] - np.uint64(first), self.entries[begin:end])


def joined(blocks: Sequence[UnitBlock]) -> UnitBlock:
    if not blocks:
        return UnitBlock(np.empty(0, np.uint8), np.empty(0, np.uint64), np.empty(0, np.uint32))
    if len(blocks) == 1:
        return blocks[0]
    bases = np.cumsum([0, *(len(block.bytes) for block in blocks[:-1])], dtype=np.uint64)
    return UnitBlock(
        np.concatenate([block.bytes for block in blocks]),
        np.concatenate([block.ends + base for block, base in zip(blocks, bases, strict=True)]),
        np.concatenate([block.entries for block in blocks]),
    )


def block_of(found: object) -> UnitBlock:
    """Makes a block of the tuple that a native function returns. Raises DataError for damage behind it."""
    data, ends, entries, fault = cast(FoundBlock, found)
    raise_fault(fault)
    return UnitBlock(data, ends, entries)


def begins_of_games(
    format: PositionFormat, block: UnitBlock, before: Sequence[int]
) -> tuple[npt.NDArray[np.bool_], Sequence[int]]:
    """Returns of each unit whether a game begins with it, and what is `before` the next block's.

    A game may have several units: chains of a binpack file, where a tool has broken it or left some of its positions
    out, and what became of them in another format. No format says so. What tells a new game is that its first ply is
    not behind the last one of the unit before, or that it has another result. So a game is never taken for two as long
    as its units follow one another in the file. Two games may be taken for one, which does no harm.
    """
    if not format.keeps_games or not len(block):
        return np.ones(len(block), np.bool_), before
    records = _native.first_entries(format.codec, block.bytes, block.begins)
    fields = records.view(_RECORD)[:, 0]
    plies = fields["ply"].astype(np.int64)
    movers = _RESULTS[fields["flags"] >> 2 & 3]
    results = np.where(fields["flags"] & _BLACK, -movers, movers).astype(np.int64)
    last = plies + block.entries.astype(np.int64) - 1
    last_before = np.concatenate([[before[0]], last[:-1]])
    result_before = np.concatenate([[before[1]], results[:-1]])
    new = (plies <= last_before) | (results != result_before) | (last_before < 0)
    return new, (int(last[-1]), int(results[-1]))
