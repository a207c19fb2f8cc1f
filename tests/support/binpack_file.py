"""A binpack file as tests look into it: chunks by offset and size, records, damage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.formats.errors import Fault

_HEADER = 8  # bytes


class Damage(NamedTuple):
    offset: int
    reason: str


def _damage(fault: object) -> Damage | None:
    if fault is None:
        return None
    _, reason, offset, _ = cast("Fault", fault)
    assert offset is not None
    return Damage(offset, reason)


def make_writer() -> _native.BinpackWriter:
    return cast("_native.BinpackWriter", _native.binpack().make_writer())


class BinpackFile:
    """The chunks before the first header that is none, and that as `header_damage`."""

    def __init__(self, path: Path | str) -> None:
        self.native = _native.open_entries(_native.binpack(), path)
        count = self.native.num_chunks
        last = self.damage(count - 1) if count else None
        header = None if last is None or last.offset != self.native.offset(count - 1) else last
        self.header_damage = header
        self.num_chunks = count - (header is not None)

    def chunk(self, chunk: int) -> tuple[int, int]:
        """Offset of the header and bytes of the payload."""
        begins = [self.native.offset(number) for number in range(self.native.num_chunks)] + [self.native.size]
        if chunk >= self.num_chunks:
            raise IndexError(chunk)
        return begins[chunk], begins[chunk + 1] - begins[chunk] - _HEADER

    def damage(self, chunk: int) -> Damage | None:
        walk = _native.ChunkWalk(self.native, chunk)
        walk.count()
        return _damage(walk.fault)

    def decode(self, chunk: int) -> tuple[npt.NDArray[np.uint8], Damage | None]:
        """All entries as records, uint8 [entries, 32], up to damage."""
        return _native.ChunkWalk(self.native, chunk).records(2**64 - 1), self.damage(chunk)

    def count(self, chunk: int) -> tuple[int, int, Damage | None]:
        """Entries, chains, damage."""
        walk = _native.ChunkWalk(self.native, chunk)
        return walk.count(), walk.units, self.damage(chunk)

    def lines(self, chunk: int) -> Iterator[str]:
        yield from _native.ChunkWalk(self.native, chunk).lines(1 << 40).decode().splitlines()

    def copy_to(self, chunk: int, writer: _native.EntryWriter) -> Damage | None:
        """The damage, or the entry that the writer refuses."""
        return _damage(_native.ChunkWalk(self.native, chunk).copy_to(writer))
