"""Units (records, lines, games or chains) as encoded bytes, which tools move whole without decoding them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

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
_BLACK = 1  # bit of the flags: Black is to move
_RESULTS = np.array([0, 1, -128, -1], np.int8)  # the mover's result, by bits 2 and 3 of the flags


class UnitEnd(NamedTuple):
    """The state after a unit, from which `find_game_starts` tells whether the next unit continues its game."""

    ply: int  # ply of the unit's last position
    result: int  # White's result


START_OF_FILE = UnitEnd(-1, 0)

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.uint64]
NativeBlock = tuple[Bytes, Numbers, npt.NDArray[np.uint32], Fault | None]  # returned by native functions


@dataclass(frozen=True)
class UnitBlock:
    """Encoded units of one format, stored one after another. All of them are valid, because they were decoded once."""

    bytes: Bytes
    ends: Numbers  # end of each unit in `bytes`
    entries: npt.NDArray[np.uint32]  # number of positions in each unit

    def __len__(self) -> int:
        return len(self.ends)

    @cached_property
    def begins(self) -> Numbers:
        """Returns the offset of each unit in `bytes`."""
        begins = np.zeros_like(self.ends)
        begins[1:] = self.ends[:-1]
        return begins

    def take(self, order: npt.NDArray[Any]) -> UnitBlock:
        """Returns a block with the units of these numbers, in the order of the numbers."""
        order = np.ascontiguousarray(order, np.uint64)
        gathered = _native.gather_units(self.bytes, self.begins, self.ends, order)
        sizes = self.ends[order] - self.begins[order]
        return UnitBlock(gathered, np.cumsum(sizes, dtype=np.uint64), self.entries[order])

    def slice(self, begin: int, end: int) -> UnitBlock:
        """Returns units `begin` to `end` - 1 as a block that shares their bytes with this one."""
        first_byte = int(self.ends[begin - 1]) if begin else 0
        end_byte = int(self.ends[end - 1]) if end else 0
        ends = self.ends[begin:end] - np.uint64(first_byte)
        return UnitBlock(self.bytes[first_byte:end_byte], ends, self.entries[begin:end])


def concatenate(blocks: Sequence[UnitBlock]) -> UnitBlock:
    """Concatenates blocks of units."""
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


def unit_block(result: object) -> UnitBlock:
    """Converts the tuple that a native function returns to a block of units. Raises DataError for damage at which the
    function stopped."""
    data, ends, entries, fault = cast(NativeBlock, result)
    raise_fault(fault)
    return UnitBlock(data, ends, entries)


def find_game_starts(
    format: PositionFormat, block: UnitBlock, before: UnitEnd
) -> tuple[npt.NDArray[np.bool_], UnitEnd]:
    """Determines which units begin a new game. Returns a boolean for each unit, and the state to pass as `before` for
    the block that follows.

    A game may consist of several units: chains of a binpack file, where a tool has split the game or left positions
    out, and units converted from such chains. No format marks where games begin. A unit counts as a new game if its
    first ply does not come after the last ply of the preceding unit, or if it has another result. So a game is never
    taken for two as long as its units are consecutive in the file. Two games may be taken for one, which does no harm.
    """
    if not format.keeps_games or not len(block):
        return np.ones(len(block), np.bool_), before
    records = _native.first_entries(format.codec, block.bytes, block.begins)
    fields = records.view(_RECORD)[:, 0]
    plies = fields["ply"].astype(np.int64)
    movers = _RESULTS[fields["flags"] >> 2 & 3]
    results = np.where(fields["flags"] & _BLACK, -movers, movers).astype(np.int64)
    last_plies = plies + block.entries.astype(np.int64) - 1
    previous_plies = np.concatenate([[before.ply], last_plies[:-1]])
    previous_results = np.concatenate([[before.result], results[:-1]])
    is_start = (plies <= previous_plies) | (results != previous_results) | (previous_plies < 0)
    return is_start, UnitEnd(int(last_plies[-1]), int(results[-1]))
