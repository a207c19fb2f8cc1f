"""Batches in the memory where a worker computes with them. On a CPU they are views of the ring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from loader.stream.schema import BatchSchema, SparseBatch
from pool.nn.batch import TensorBatch

Slot = npt.NDArray[np.uint8]


class LoadedBatch(Protocol):
    """A batch that was taken from its ring slot, or is being copied from it."""

    @property
    def batch(self) -> TensorBatch:
        """The batch, for its number and its shapes. On a GPU its values may not have arrived."""

    def when_read(self, done: Callable[[], object]) -> None:
        """Calls `done` when nothing reads the ring slot any more until the batch is computed: at once, or later in
        another thread."""

    def for_current_stream(self) -> TensorBatch:
        """Returns the batch, to be used by work that is queued on the current stream from now on."""


class Batches(Protocol):
    """Brings batches from ring slots to the device."""

    def take(self, slot: Slot, schema: BatchSchema | None = None) -> LoadedBatch:
        """Returns the batch that lies in ring slot `slot`, or begins to copy it to the device. `schema`: that of the
        batch, if it differs from the others."""


class HostBatches:
    """The Batches of a CPU: views of ring slots, without copies."""

    def __init__(self, schema: BatchSchema) -> None:
        self._schema = schema

    def take(self, slot: Slot, schema: BatchSchema | None = None) -> OnHost:
        return OnHost(TensorBatch.from_numpy(SparseBatch.view(schema or self._schema, slot)))


class OnHost:
    """A LoadedBatch that is a view of its ring slot."""

    def __init__(self, batch: TensorBatch) -> None:
        self.batch = batch

    def when_read(self, done: Callable[[], object]) -> None:
        done()

    def for_current_stream(self) -> TensorBatch:
        return self.batch
