"""The `Stream` protocol over the native pipeline, for any family of records.

Native threads do all the work, without Python's global lock unless a format is written in Python. This file only
translates settings for them, and their answers.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.stream.config import DataConfig
from loader.stream.interface import Cursor, Filled
from loader.stream.mixture_rates import OpenedComponent, measure_components
from loader.stream.schema import BatchSchema
from loader.stream.skipped_data import SkippedData


class NativeStream:
    """A stream of batches that native threads make from a source's records. Not safe for use by two threads at once."""

    def __init__(
        self,
        config: DataConfig,
        schema: BatchSchema,
        source: _native.Source,
        seed: int,
        *,
        validation: bool = False,
        components: Sequence[OpenedComponent] = (),
    ) -> None:
        """Opens the pipeline. `validation`: reads the share of the files that data.validation_share keeps for
        validations, instead of the rest. `components`: consecutive parts of the source's chunks, which are mixed in the
        ratio of their shares.

        Raises ValueError for a share that is smaller than a chunk, or that no sample of the component can fill.
        """
        self.schema = schema
        settings = pipeline_settings(
            config, seed, measure_components(source, components, config.num_threads), validation=validation
        )
        self._pipeline = _native.Pipeline(source, settings)
        # A native thread that waits for the GIL while the interpreter shuts down would never return.
        weakref.finalize(self, self._pipeline.close)

    @property
    def num_chunks(self) -> int:
        return self._pipeline.num_chunks

    def compare_with(self, words: npt.NDArray[np.uint64]) -> None:
        self._pipeline.compare_with(words)

    def attach(self, slots: Sequence[npt.NDArray[np.uint8]]) -> None:
        self._pipeline.attach(list(slots))

    def seek(self, cursor: Cursor) -> None:
        position = (cursor.batch, cursor.epoch, cursor.window, cursor.entry)
        if min(position) < 0:
            raise ValueError(f"{cursor} is no cursor: its numbers are 0 or more")
        self._pipeline.seek(position)

    def give(self, slot: int) -> None:
        self._pipeline.give(slot)

    def pass_over(self, slot: int) -> None:
        self._pipeline.give(slot, pass_over=True)

    def take(self) -> Filled | None:
        finished = self._pipeline.take()
        if finished is None:
            return None
        slot, begin, end = finished
        cursor = Cursor(*begin)
        return Filled(slot, cursor.batch, cursor, next_cursor=Cursor(*end))

    def skipped(self) -> Sequence[SkippedData]:
        return [SkippedData(*kind, chunk=chunk) for chunk, kind in self._pipeline.take_skipped()]

    def fileno(self) -> int:
        return self._pipeline.fileno()

    def progress(self) -> tuple[int, int, int]:
        """Returns (entries read, entries that passed the filters, batches built) since the stream was opened."""
        return self._pipeline.progress()

    def processor_time(self) -> tuple[float, float, float]:
        """Returns the seconds of processor time that threads have spent on (decoding and filters, shuffling, building
        batches)."""
        return self._pipeline.processor_time()

    def close(self) -> None:
        self._pipeline.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def region_table(schema: BatchSchema) -> dict[str, tuple[int, int, int]]:
    """Returns the byte layout of a slot for a native source, which compares it with its own: (offset in bytes, count,
    bytes of an item) of each array by name."""
    return {name: (region.offset, region.count, region.dtype.itemsize) for name, region in schema.regions.items()}


def pipeline_settings(
    config: DataConfig, seed: int, components: Sequence[_native.Component] = (), *, validation: bool = False
) -> _native.PipelineSettings:
    """Converts the settings of a stream to those of the native pipeline. `validation`: for a stream of the samples
    that data.validation_share keeps from training."""
    settings = _native.PipelineSettings()
    settings.seed = seed
    settings.window_chunks = config.window_chunks
    settings.threads = config.num_threads
    settings.shuffle = config.shuffle
    settings.drop_tail = config.tail == "drop"
    settings.skip_damaged = config.on_bad_data == "skip"
    settings.validation_share = config.validation_share
    settings.validation = validation
    settings.components = list(components)
    return settings
