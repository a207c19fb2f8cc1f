"""A file format that has a native codec: what its module (loader/chess/formats/NAME/__init__.py) is made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from loader.files.identity import DataFile

if TYPE_CHECKING:
    from loader import _native
    from loader.chess.positions.reader import EntriesReader
    from loader.chess.statistics.statistics import FileStatistics
    from loader.formats.format import OnProgress, Verdict
    from loader.stream.config import DataConfig


def with_packed(*suffixes: str) -> tuple[str, ...]:
    """The endings, and those of compressed files."""
    return tuple(f"{suffix}{packed}" for suffix in suffixes for packed in ("", ".gz", ".zst"))


@dataclass(frozen=True)
class PositionFormat:
    """`loader.formats.format.Format` and what commands ask besides."""

    name: str  # of the function of `_native` that gives the codec
    lacks: Sequence[str] = ()  # what entries do not have, of `loader.chess.filters.PARTS`
    lines: bool = False  # text

    @property
    def codec(self) -> _native.Codec:
        from loader import _native

        codec: _native.Codec = getattr(_native, self.name)()
        return codec

    def recognizes(self, head: bytes) -> bool:
        return self.codec.begins_a_file(head)

    def open_files(self, files: Sequence[DataFile], may_grow: bool, skip_damaged: bool) -> EntriesReader:
        from loader.chess.positions.reader import EntriesReader

        return EntriesReader(self, files, may_grow=may_grow, skip_damaged=skip_damaged)

    def open_with(self, config: DataConfig, files: Sequence[DataFile]) -> EntriesReader:
        from loader.chess.filters import PLY, needs
        from loader.chess.positions.opening import IllegalRule
        from loader.chess.positions.reader import EntriesReader

        return EntriesReader(
            self,
            files,
            may_grow=config.may_grow,
            skip_damaged=config.on_bad_data == "skip",
            needs_ply=any(need.part == PLY for need in needs(config.settings.filters)),
            illegal=IllegalRule(config.on_bad_data, every=False),
        )

    def whole_size(self, file: DataFile) -> int:
        """Without a last record, line or game that has no end yet."""
        from loader.chess.positions.opening import open_file

        return open_file(self, file, may_grow=True).whole_size

    def verify(self, path: Path, threads: int, progress: OnProgress | None) -> Verdict:
        from loader.chess.positions.verify import verify

        return verify(self, path, threads, progress)

    def inspect(self, path: Path, progress: OnProgress | None) -> FileStatistics:
        from loader.chess.statistics.counting import inspect

        return inspect(path, tick=progress)

    def dump(self, path: Path, limit: int | None) -> Iterator[bytes]:
        from loader.chess.positions.verify import dump

        return dump(self, path, limit)
