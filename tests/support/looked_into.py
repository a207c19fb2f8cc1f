"""Files of positions looked into by their paths, as `loader verify`, `dump` and `inspect` do it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from loader.chess.filters import FilterConfig
from loader.chess.positions import verify as looks
from loader.chess.positions.file import COUNT_ILLEGAL
from loader.chess.positions.inputs import open_input
from loader.chess.statistics.inspection import inspect_source, open_for_inspection
from loader.chess.statistics.statistics import FileStatistics
from loader.formats.file_tools import VerifyResult


def verify(path: Path, threads: int = 1, format: str | None = None) -> VerifyResult:
    """Judges a file."""
    return looks.verify(open_input(path, format, policy=COUNT_ILLEGAL, indexed=False), threads)


def dump(path: Path, limit: int | None = None, format: str | None = None) -> Iterator[bytes]:
    """Yields its entries as blocks of lines."""
    return looks.dump(open_input(path, format, indexed=False), limit)


def inspect(
    path: Path, filters: FilterConfig | None = None, seed: int = 0, king_buckets: Sequence[int] = (), threads: int = 1
) -> FileStatistics:
    """Counts what is in a file."""
    return inspect_source(open_for_inspection(path, filters), filters, seed, king_buckets, threads)
