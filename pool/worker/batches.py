"""BatchLoader in the memory where a worker computes with them. On a CPU they are views of the ring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from loader.stream.schema import BatchSchema, SparseBatch
from pool.nn.batch import TensorBatch

Slot = npt.NDArray[np.uint8]


class LoadedBatch(Protocol):
    """A batch that was loaded from its ring slot, or is being copied from it."""

    @property
    def batch(self) -> TensorBatch:
        """The batch, for its number and its shapes. On a GPU its values may not have arrived."""

    def call_when_read(self, on_read: Callable[[], object]) -> None:
        """Calls `on_read` when nothing reads the ring slot any more until the batch is computed: at once, or later in
        another thread."""

    def for_current_stream(self) -> TensorBatch:
        """Returns the batch, to be used by work that is queued on the current stream from now on."""


class BatchLoader(Protocol):
    """Brings batches from ring slots to the device."""

    def load(self, slot: Slot, schema: BatchSchema | None = None) -> LoadedBatch:
        """Returns the batch that lies in ring slot `slot`, or starts to copy it to the device. `schema`: that of the
        batch, if it differs from the others."""


class HostBatchLoader:
    """Implements `BatchLoader` on a CPU by views of ring slots, without copies."""

    def __init__(self, schema: BatchSchema) -> None:
        self._schema = schema

    def load(self, slot: Slot, schema: BatchSchema | None = None) -> HostBatch:
        return HostBatch(TensorBatch.from_numpy(SparseBatch.view(schema or self._schema, slot)))


class HostBatch:
    """Implements `LoadedBatch` by views of its ring slot."""

    def __init__(self, batch: TensorBatch) -> None:
        self.batch = batch

    def call_when_read(self, on_read: Callable[[], object]) -> None:
        on_read()

    def for_current_stream(self) -> TensorBatch:
        return self.batch
