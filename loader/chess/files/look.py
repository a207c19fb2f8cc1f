"""Files of positions looked into: verify, inspect, dump. Damage is never skipped silently (I8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loader import _native
from loader.chess.files.format import PositionFormat
from loader.chess.files.opening import open_file
from loader.chess.files.reader import LINES_AT_ONCE, fault_behind, raise_fault
from loader.chess.filters import CASTLING, MOVE, PLY, SIDE
from loader.chess.statistics import PositionStatistics
from loader.errors import DataError
from loader.formats.faults import Fault
from loader.formats.format import OnProgress, Verdict
from loader.formats.parallel import map_chunks

# What numbers say nothing about files that lack a part.
_SAID_OF = {MOVE: ("moves", "captures"), PLY: ("ply",), SIDE: ("white_to_move",), CASTLING: ()}


@dataclass(frozen=True)
class EntryStatistics:
    """Of one file. `units`: records, lines or games."""

    file: str
    format: str
    bytes: int
    chunks: int
    unit: str
    units: int
    bytes_per_entry: float
    positions: PositionStatistics
    lacks: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data; the positions' numbers stand beside the others."""
        data = asdict(self)
        positions: dict[str, Any] = data.pop("positions")
        return data | {name: value for name, value in positions.items() if name not in self._unsaid()}

    def rows(self) -> list[tuple[str, str]]:
        """Names and values for people."""
        unsaid = {name.replace("_", " ") for name in self._unsaid()}
        return [
            ("format", f"{self.format}; without {', '.join(self.lacks)}" if self.lacks else self.format),
            ("bytes", f"{self.bytes:,}"),
            ("chunks", f"{self.chunks:,}"),
            (f"{self.unit}s", f"{self.units:,}"),
            ("entries", f"{self.positions.entries:,} ({self.bytes_per_entry:.3f} bytes each)"),
            *((name, value) for name, value in self.positions.rows() if name not in unsaid),
        ]

    def _unsaid(self) -> set[str]:
        return {name for part in self.lacks for name in _SAID_OF.get(part, ())}


def verify(found: PositionFormat, path: Path, threads: int, progress: OnProgress | None) -> Verdict:
    """Reads every entry of a file, up to the first damage."""
    name = str(path)
    try:
        file = open_file(found, path)
    except DataError as error:
        return Verdict(name, False, 0, error.offset, error.reason)

    def count(chunk: int) -> tuple[int, Fault | None]:
        walk = _native.ChunkWalk(file, chunk)
        return walk.count(), fault_behind(walk)

    entries = 0
    for chunk, (read, fault) in enumerate(map_chunks(count, file.num_chunks, threads)):
        entries += read
        if fault is not None:
            return Verdict(name, False, entries, fault[2], fault[1])
        _tell(progress, file, chunk)
    return Verdict(name, True, entries)


def inspect(found: PositionFormat, path: Path, progress: OnProgress | None) -> EntryStatistics:
    """Reads every entry of a file. Raises DataError at damage."""
    file = open_file(found, path)
    census = _native.Census()
    units = 0
    for chunk in range(file.num_chunks):
        walk = _native.ChunkWalk(file, chunk)
        walk.take_census(census)
        raise_fault(fault_behind(walk))
        units += walk.units
        _tell(progress, file, chunk)
    return EntryStatistics(
        file=str(path),
        format=found.name,
        bytes=file.size,
        chunks=file.num_chunks,
        unit=found.codec.unit,
        units=units,
        bytes_per_entry=round(file.size / max(census.entries, 1), 4),
        positions=PositionStatistics.of_census(census),
        lacks=tuple(found.lacks),
    )


def dump(found: PositionFormat, path: Path, limit: int | None) -> Iterator[bytes]:
    """Blocks of whole lines, one line an entry. Raises DataError at damage, after the entries before it."""
    file = open_file(found, path)
    left = limit
    for chunk in range(file.num_chunks):
        if left == 0:
            return
        walk = _native.ChunkWalk(file, chunk)
        while lines := walk.lines(LINES_AT_ONCE if left is None else min(left, LINES_AT_ONCE)):
            if left is not None:
                left -= lines.count(b"\n")
            yield lines
        if left != 0:
            raise_fault(fault_behind(walk))


def _tell(progress: OnProgress | None, file: _native.EntryFile, chunk: int) -> None:
    if progress is not None:
        progress(file.offset(chunk + 1) if chunk + 1 < file.num_chunks else file.size, file.size)
