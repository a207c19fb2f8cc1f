"""What a binpack file holds, in numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loader._native import BinpackFile, Census
from loader.chess.statistics import PositionStatistics
from loader.formats.binpack.file import damage_error
from loader.formats.format import OnProgress


@dataclass(frozen=True)
class BinpackStatistics:
    """Of one file."""

    file: str
    bytes: int
    chunks: int
    chains: int
    bytes_per_entry: float
    entries_per_chain: float
    positions: PositionStatistics

    def to_dict(self) -> dict[str, Any]:
        """Plain data; the positions' numbers stand beside the others."""
        data = asdict(self)
        positions: dict[str, Any] = data.pop("positions")
        return data | positions

    def rows(self) -> list[tuple[str, str]]:
        """Names and values for people."""
        return [
            ("bytes", f"{self.bytes:,}"),
            ("chunks", f"{self.chunks:,}"),
            ("chains", f"{self.chains:,} ({self.entries_per_chain:,.1f} entries each)"),
            ("entries", f"{self.positions.entries:,} ({self.bytes_per_entry:.3f} bytes each)"),
            *self.positions.rows(),
        ]


def inspect(path: Path | str, progress: OnProgress | None = None) -> BinpackStatistics:
    """Reads every entry of a file. Raises DataError at damage."""
    file = BinpackFile(path)
    census = Census()
    chains = 0
    for chunk in range(file.num_chunks):
        found, damage = file.take_census(chunk, census)
        if damage is not None:
            raise damage_error(path, damage, in_chunk=True)
        chains += found
        if progress is not None:
            progress(sum(file.chunk(chunk)), file.size)
    if file.header_damage is not None:
        raise damage_error(path, file.header_damage, in_chunk=False)
    return BinpackStatistics(
        file=str(path),
        bytes=file.size,
        chunks=file.num_chunks,
        chains=chains,
        bytes_per_entry=round(file.size / max(census.entries, 1), 4),
        entries_per_chain=round(census.entries / max(chains, 1), 2),
        positions=PositionStatistics.of_census(census),
    )
