"""Batches where a worker computes with them: views of the ring on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from loader.stream.schema import BatchSchema, SparseBatch
from pool.nn.batch import TensorBatch

Slot = npt.NDArray[np.uint8]


class LoadedBatch(Protocol):
    """A batch that was taken from its slot, or is on its way."""

    @property
    def batch(self) -> TensorBatch:
        """Its shapes; on a device not its numbers yet."""

    def when_read(self, done: Callable[[], object]) -> None:
        """Calls `done` when nothing reads the slot any more before the batch is computed: now, or later in another
        thread."""

    def for_current_stream(self) -> TensorBatch:
        """To compute with, by what is queued on the current stream from now on."""


class Batches(Protocol):
    def take(self, slot: Slot, schema: BatchSchema | None = None) -> LoadedBatch:
        """The finished batch in `slot`; `schema`: its own, if it is not that of the others."""


class HostBatches:
    """Zero-copy."""

    def __init__(self, schema: BatchSchema) -> None:
        self._schema = schema

    def take(self, slot: Slot, schema: BatchSchema | None = None) -> OnHost:
        return OnHost(TensorBatch.from_numpy(SparseBatch.view(schema or self._schema, slot)))


class OnHost:
    def __init__(self, batch: TensorBatch) -> None:
        self.batch = batch

    def when_read(self, done: Callable[[], object]) -> None:
        done()

    def for_current_stream(self) -> TensorBatch:
        return self.batch
