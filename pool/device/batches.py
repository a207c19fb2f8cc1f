"""Copies batches to a device: the used part of a ring slot in one asynchronous copy, on a stream of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from loader.stream.schema import BatchSchema, SparseBatch
from pool.device.event_waiter import Event, EventWaiter, record_host_event
from pool.device.timeline import COPIES_IN, NoTimeline, Timeline
from pool.nn.batch import SparseInput, TensorBatch

Slot = npt.NDArray[np.uint8]


class DeviceBatchLoader:
    """Implements `pool.worker.batches.BatchLoader` on a device. The batch's tensors are views of a copy of its ring
    slot."""

    def __init__(
        self,
        schema: BatchSchema,
        device: torch.device,
        event_waiter: EventWaiter,
        timeline: Timeline | None = None,
    ) -> None:
        self._schema = schema
        self._timeline = timeline or NoTimeline()
        self._device = device
        self._event_waiter = event_waiter
        self._stream = torch.Stream(device=device)

    def load(self, slot: Slot, schema: BatchSchema | None = None) -> DeviceBatch:
        """Starts to copy the finished batch in `slot` to the device, as far as the slot is filled. `schema`: the
        batch's own, if it differs."""
        batch = SparseBatch.view(schema or self._schema, slot)
        used = max(_offset_in_slot(array, slot) + array.nbytes for array in _list_arrays(batch))
        span = self._timeline.start_span(self._stream)
        with self._stream:
            memory = torch.empty(used, dtype=torch.uint8, device=self._device)
            memory.copy_(torch.from_numpy(slot[:used]), non_blocking=True)
        self._timeline.end_span(span, COPIES_IN, "batch", batch=batch.number)
        copied = self._stream.record_event()
        read = record_host_event(self._stream)
        return DeviceBatch(_view_copy(batch, slot, memory), memory, copied, read, self._event_waiter)


class DeviceBatch:
    """A batch that is being copied to the device. Implements `LoadedBatch`."""

    def __init__(
        self, batch: TensorBatch, memory: Tensor, copied: torch.Event, read: Event, event_waiter: EventWaiter
    ) -> None:
        """Describes the copy. `memory`: the copied slot, uint8; `copied`, `read`: events after the copy, for streams
        and for threads, after which nothing reads the slot."""
        self.batch = batch
        self._memory = memory
        self._copied = copied
        self._read = read
        self._event_waiter = event_waiter

    def call_when_read(self, on_read: Callable[[], object]) -> None:
        self._event_waiter.call_after(self._read, on_read)

    def for_current_stream(self) -> TensorBatch:
        current = torch.accelerator.current_stream(self._memory.device)
        current.wait_event(self._copied)
        self._memory.record_stream(current)
        return self.batch


def _view_copy(batch: SparseBatch, slot: Slot, memory: Tensor) -> TensorBatch:
    """Returns the batch as views of a copy of its slot. `batch`: views of the slot itself; `memory`: the copy,
    uint8."""

    def view_array(array: npt.NDArray[Any]) -> Tensor:
        begin = _offset_in_slot(array, slot)
        return memory[begin : begin + array.nbytes].view(torch.from_numpy(array).dtype)

    return TensorBatch(
        number=batch.number,
        sparse={
            name: SparseInput(**{key: view_array(array) for key, array in view.arrays().items()})
            for name, view in batch.sparse.items()
        },
        dense={name: view_array(array) for name, array in batch.dense.items()},
        bucket_offsets=tuple(int(offset) for offset in batch.bucket_offsets),
    )


def _list_arrays(batch: SparseBatch) -> list[npt.NDArray[Any]]:
    sparse = [array for view in batch.sparse.values() for array in view.arrays().values()]
    return [*batch.dense.values(), *sparse]


def _offset_in_slot(array: npt.NDArray[Any], slot: Slot) -> int:
    """Returns the byte offset of an array in its slot."""
    return array.ctypes.data - slot.ctypes.data
