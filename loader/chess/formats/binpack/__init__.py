"""The format `binpack` of Stockfish's trainers: chains of positions in chunks of about 1 MiB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loader.files.identity import DataFile

if TYPE_CHECKING:
    from loader.chess.formats.binpack.reader import BinpackReader
    from loader.chess.statistics.statistics import FileStatistics
    from loader.formats.format import OnProgress, Verdict
    from loader.stream.config import DataConfig

FAMILY = "chess"
SCORE_UNIT = "internal units"
SUFFIXES = (".binpack",)
_MAGIC = b"BINP"


def recognizes(head: bytes) -> bool:
    return head.startswith(_MAGIC)


def open_files(files: Sequence[DataFile], may_grow: bool, skip_damaged: bool) -> BinpackReader:
    from loader.chess.formats.binpack.reader import BinpackReader

    return BinpackReader(files, may_grow=may_grow, skip_damaged=skip_damaged)


def open_with(config: DataConfig, files: Sequence[DataFile]) -> BinpackReader:
    from loader.chess.formats.binpack.reader import BinpackReader

    skip = config.on_bad_data == "skip"
    return BinpackReader(files, may_grow=config.may_grow, skip_damaged=skip, on_illegal=config.on_bad_data)


def whole_size(file: DataFile) -> int:
    from loader.chess.formats.binpack.reader import whole_size

    return whole_size(file)


def verify(path: Path, threads: int, progress: OnProgress | None) -> Verdict:
    from loader.chess.formats.binpack.file import verify

    return verify(path, threads, progress)


def inspect(path: Path, progress: OnProgress | None) -> FileStatistics:
    from loader.chess.statistics.counting import inspect

    return inspect(path, tick=progress)


def dump(path: Path, limit: int | None) -> Iterator[bytes]:
    from loader.chess.formats.binpack.file import dump

    return dump(path, limit)
