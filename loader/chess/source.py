"""The source "chess": positions with a score and a result, from files of any format of that family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loader.chess import estimate
from loader.chess.fields import batch_schema
from loader.chess.readers import FAMILY, format_name, format_of, in_file_order, open_readers
from loader.chess.settings import ChessConfig
from loader.chess.stream import ChessStream, position_source
from loader.files.compression import is_packed, packed_notes
from loader.files.identity import DataFile
from loader.formats.format import GrowingFormat, Reader
from loader.formats.provenance import origin
from loader.formats.readers import family_format
from loader.stream.config import DataConfig
from loader.stream.interface import Cursor
from loader.stream.mixture_rates import OpenedComponent, Portion, open_components, portions, rates
from loader.stream.schema import BatchSchema

_MIB = 1 << 20
_DECODED = 28  # bytes of memory for a byte of file, of formats that do not say it
_PACKED = 4  # bytes of a file for a byte of a compressed one
_WINDOWS = 2  # one is read while the next is decoded


class ChessSource:
    """`loader.sources.Source`."""

    settings = ChessConfig

    def schema(self, config: DataConfig) -> BatchSchema:
        if config.format is not None:
            family_format(config.format, FAMILY)
        return batch_schema(config)

    def open(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> ChessStream:
        readers, components = _open(config, files)
        return ChessStream(config, self.schema(config), readers, seed, components=components)

    def open_validation_share(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> ChessStream:
        readers, components = _open(config, files)
        return ChessStream(config, self.schema(config), readers, seed, validation=True, components=components)

    def origin(self, config: DataConfig, files: Sequence[DataFile], seed: int, cursor: Cursor) -> dict[str, Any]:
        readers, components = _open(config, files)
        source = position_source(config, self.schema(config), readers, seed)
        mixed = rates(source, components, config.threads)
        return origin(config, readers, seed, cursor, mixed, in_file_order=in_file_order(readers))

    def portions(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> Sequence[Portion]:
        readers, components = _open(config, files)
        return portions(position_source(config, self.schema(config), readers, seed), components, config.threads)

    def start_notes(self, config: DataConfig, files: Sequence[DataFile]) -> Sequence[str]:  # noqa: ARG002
        return packed_notes(files, "positions")

    def format_name(self, config: DataConfig, file: DataFile) -> str:
        return format_name(config, file)

    def score_unit(self, config: DataConfig, file: DataFile) -> str:
        return getattr(format_of(config, file), "SCORE_UNIT", "")

    def whole_size(self, config: DataConfig, file: DataFile) -> int:
        found = format_of(config, file)
        return found.whole_size(file) if isinstance(found, GrowingFormat) else file.size

    def samples_per_epoch(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> int | None:
        """About how many positions pass the filters. Raises DataError."""
        return estimate.samples_per_epoch(config, files, seed)

    def window_nbytes(self, config: DataConfig, files: Sequence[DataFile]) -> int:
        """No window holds more than the files have; a chunk is about 1 MiB of file, or a whole file that is smaller."""
        decoded = max(getattr(format_of(config, file), "DECODED", _DECODED) for file in files) if files else 0
        there = sum(file.size * (_PACKED if is_packed(file) else 1) for file in files)
        return _WINDOWS * min(config.window_chunks * _MIB, there) * decoded


def _open(config: DataConfig, files: Sequence[DataFile]) -> tuple[list[Reader], tuple[OpenedComponent, ...]]:
    return open_components(files, lambda group: open_readers(config, group))
