"""Binpack files as a stream of batches: the settings, handed to the native pipeline.

All work is done by native threads that hold no lock of Python's. This file only translates: the schema's
byte layout into the table that the native writer checks, and native answers into the `Stream` protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.binpack_origin import origin
from loader.config import DataConfig
from loader.errors import DataError
from loader.files import DataFile
from loader.schema import BatchSchema, DenseField, SparseField
from loader.stream import Cursor, Filled

NUM_BUCKETS = 8  # output bucket = (piece count - 1) // 4
FIELD = "features"
DENSE = (
    DenseField("score", "int16"),  # internal units of the engine, side to move's view
    DenseField("result", "int8"),  # -1, 0, 1, side to move's view
    DenseField("ply", "uint16"),
    DenseField("piece_count", "uint8"),  # kings included
    DenseField("side_to_move", "uint8"),  # 0 white, 1 black
)


class BinpackSource:
    """The source "binpack": positions of chess with a score and a result."""

    def schema(self, config: DataConfig) -> BatchSchema:
        """Bags 0 .. B - 1 of `features` are the side to move's perspective, B .. 2B - 1 the opponent's."""
        if config.features not in _native.feature_sets():
            known = ", ".join(_native.feature_sets())
            raise ValueError(f"data.features: {config.features!r} is none of {known}")
        num_inputs, max_active = _native.describe_feature_set(config.features)
        field = SparseField(FIELD, num_inputs, max_active=max_active, bags_per_sample=2)
        return BatchSchema(config.batch_size, sparse=(field,), dense=DENSE, num_buckets=NUM_BUCKETS)

    def open(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> BinpackStream:
        if not files:
            raise ValueError("data.train: no file is given")
        return BinpackStream(config, self.schema(config), files, seed)

    def origin(self, config: DataConfig, files: Sequence[DataFile], seed: int, cursor: Cursor) -> dict[str, Any]:
        return origin(config, files, seed, cursor)

    def whole_size(self, file: DataFile) -> int:
        opened = _native.BinpackFile(file.path, file.identity, may_grow=True)
        if opened.header_damage is None or not opened.ends_in_a_chunk:
            return file.size
        return opened.header_damage.offset

    def samples_per_epoch(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> int | None:
        """About how many positions pass the filters. Raises DataError."""
        from loader.binpack_estimate import samples_per_epoch  # which opens a stream itself

        return samples_per_epoch(config, files, seed)


class BinpackStream:
    """The `Stream` protocol over the native pipeline. Not for two threads at once."""

    def __init__(self, config: DataConfig, schema: BatchSchema, files: Sequence[DataFile], seed: int) -> None:
        self.schema = schema
        opened = [_native.BinpackFile(file.path, file.identity, config.may_grow) for file in files]
        usable = any(file.num_chunks for file in opened)
        for file, name in zip(opened, files, strict=True):
            # A file damaged further on is used up to there; one with nothing before it can't be meant.
            if file.num_chunks == 0 and file.header_damage is not None and not (usable and skip_damaged(config)):
                raise DataError(name.path, file.header_damage.reason, file.header_damage.offset)
        if not usable:
            raise DataError(
                ", ".join(str(file.path) for file in files[:3]) or "no file",
                "there is nothing to read: no file has a chunk",
            )
        regions = {
            name: (region.offset, region.count, region.dtype.itemsize) for name, region in schema.regions.items()
        }
        self._pipeline = _native.BinpackPipeline(
            opened,
            config.features,
            schema.batch_size,
            schema.slot_bytes,
            regions,
            filter_settings(config),
            pipeline_settings(config, seed),
        )

    @property
    def num_chunks(self) -> int:
        """A damaged chunk header and what is behind it count as one chunk, which is never read."""
        return self._pipeline.num_chunks

    def compare_with(self, words: npt.NDArray[np.uint64]) -> None:
        self._pipeline.compare_with(words)

    def attach(self, slots: Sequence[npt.NDArray[np.uint8]]) -> None:
        self._pipeline.attach(list(slots))

    def seek(self, cursor: Cursor) -> None:
        place = (cursor.batch, cursor.epoch, cursor.window, cursor.entry)
        if min(place) < 0:
            raise ValueError(f"{cursor} is no cursor: its numbers are 0 or more")
        self._pipeline.seek(place)

    def give(self, slot: int) -> None:
        self._pipeline.give(slot)

    def take(self) -> Filled | None:
        taken = self._pipeline.take()
        if taken is None:
            return None
        slot, here, then = taken
        return Filled(slot, here[0], Cursor(*here), Cursor(*then))

    def skipped(self) -> Sequence[DataError]:
        return [DataError(*place) for place in self._pipeline.take_skipped()]

    def fileno(self) -> int:
        return self._pipeline.fileno()

    def progress(self) -> tuple[int, int, int]:
        """(entries read, entries that passed the filters, batches built), all since the stream was opened."""
        return self._pipeline.progress()

    def processor_time(self) -> tuple[float, float, float]:
        """Seconds that threads have spent on (decoding and filters, shuffling, building batches)."""
        return self._pipeline.processor_time()

    def close(self) -> None:
        self._pipeline.close()

    def __enter__(self) -> BinpackStream:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def skip_damaged(config: DataConfig) -> bool:
    return config.on_bad_data == "skip"


def filter_settings(config: DataConfig) -> _native.FilterSettings:
    settings = _native.FilterSettings()
    for name, value in config.filters:
        setattr(settings, name, value)
    return settings


def pipeline_settings(config: DataConfig, seed: int) -> _native.PipelineSettings:
    settings = _native.PipelineSettings()
    settings.seed = seed % 2**64
    settings.window_chunks = config.window_chunks
    settings.threads = config.threads
    settings.shuffle = config.shuffle
    settings.drop_tail = config.tail == "drop"
    settings.skip_damaged = skip_damaged(config)
    return settings
