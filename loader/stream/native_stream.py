"""The `Stream` protocol over the native pipeline, for any family of records.

All work is done by native threads, which hold no lock of Python's unless a format is written in Python. This file only
translates: settings, and native answers.
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
from loader.stream.left_out import LeftOut
from loader.stream.mixture_rates import OpenedComponent, rates
from loader.stream.schema import BatchSchema


class NativeStream:
    """A source's batches. Not for two threads at once."""

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
        """`validation`: of data.validation_share; else of the rest. `components`: that the source's chunks are of.

        Raises ValueError for a share that is no chunk, or can't be kept.
        """
        self.schema = schema
        settings = pipeline_settings(config, seed, rates(source, components, config.num_threads), validation=validation)
        self._pipeline = _native.Pipeline(source, settings)
        # A thread that waits for the GIL when the interpreter goes would never come back.
        weakref.finalize(self, self._pipeline.close)

    @property
    def num_chunks(self) -> int:
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

    def pass_over(self, slot: int) -> None:
        self._pipeline.give(slot, pass_over=True)

    def take(self) -> Filled | None:
        taken = self._pipeline.take()
        if taken is None:
            return None
        slot, here, then = taken
        return Filled(slot, here[0], Cursor(*here), Cursor(*then))

    def skipped(self) -> Sequence[LeftOut]:
        return [LeftOut(*kind, chunk=chunk) for chunk, kind in self._pipeline.take_skipped()]

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def region_table(schema: BatchSchema) -> dict[str, tuple[int, int, int]]:
    """The schema's byte layout as a native source checks it: offset, count and item size of each array."""
    return {name: (region.offset, region.count, region.dtype.itemsize) for name, region in schema.regions.items()}


def pipeline_settings(
    config: DataConfig, seed: int, components: Sequence[_native.Component] = (), *, validation: bool = False
) -> _native.PipelineSettings:
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
