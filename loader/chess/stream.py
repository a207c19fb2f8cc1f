"""Positions as a stream of batches: the settings, handed to the native pipeline."""

from __future__ import annotations

from collections.abc import Sequence

from loader import _native
from loader.chess.filters.native_settings import filter_settings
from loader.chess.output_buckets import buckets_by_pieces
from loader.chess.readers import native_reader
from loader.formats.format import Reader
from loader.stream.config import DataConfig
from loader.stream.mixture_rates import OpenedComponent
from loader.stream.native_stream import NativeStream, region_table
from loader.stream.schema import BatchSchema


class ChessStream(NativeStream):
    """The stream of positions that pass the filters."""

    def __init__(
        self,
        config: DataConfig,
        schema: BatchSchema,
        readers: Sequence[Reader],
        seed: int,
        *,
        validation: bool = False,
        components: Sequence[OpenedComponent] = (),
    ) -> None:
        source = position_source(config, schema, readers, seed)
        super().__init__(config, schema, source, seed, validation=validation, components=components)


def position_source(
    config: DataConfig, schema: BatchSchema, readers: Sequence[Reader], seed: int
) -> _native.PositionSource:
    return _native.PositionSource(
        [native_reader(reader) for reader in readers],
        config.settings.features,
        config.settings.king_buckets,
        buckets_by_pieces(config.settings.output_buckets),
        schema.batch_size,
        schema.slot_bytes,
        region_table(schema),
        filter_settings(config.settings.filters),
        seed,
    )
