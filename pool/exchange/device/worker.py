"""A worker's end of an exchange where its model lies in a device's memory.

Gradients are copied asynchronously on a stream beside the one that computes: to page-locked memory of the host, or to
the coordinator's memory on the same device. Of a table a gradient slot has the touched rows alone, one after the other
from the place of the table's first row on (`compact_rows`). If the slot has a narrower type, gradients are rounded on
the device, before they are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pool.device.event_waiter import EventWaiter, record_host_event
from pool.device.timeline import COPIES_OUT, NoTimeline, Timeline
from pool.exchange.device.weights import DeviceWeights, Streams, pair_spans
from pool.exchange.interface import GroupBatch
from pool.exchange.layout import Layout
from pool.exchange.plan import Bucket
from pool.exchange.tensors import torch_dtype, view_as_tensors
from pool.exchange.touched_rows import Group, compact_rows
from pool.kernels.finite import Outcomes

Slot = npt.NDArray[np.uint8]


class DeviceWorker:
    """Implements `WorkerExchange` on a device. Only `read_results` waits for the device."""

    uses_compact_rows = True

    def __init__(
        self,
        layout: Layout,
        weights: DeviceWeights,
        streams: Streams,
        event_waiter: EventWaiter,
        *,
        slots: Sequence[Tensor],
        list_memory: Sequence[Slot],
        timeline: Timeline | None = None,
        spins: bool = False,
    ) -> None:
        """Describes the worker's memory, and allocates page-locked memory for losses and flags.

        `slots`: the worker's own gradient slots, uint8, in host memory or on the device; `list_memory`: for each slot
        the host memory of its lists of touched rows; `timeline`: of the copies, for traces; `spins`: waiting for the
        outcome of a group keeps a core busy.
        """
        slot_plan, self._lists = layout.slot_plan, layout.touched_lists
        self._plan = plan = layout.plan
        self._timeline = timeline or NoTimeline()
        self._spins = spins
        self._weights = weights
        self._streams = streams
        self._event_waiter = event_waiter
        self._slots = slots
        self._slot_gradients = [view_as_tensors(slot, slot_plan.parameters) for slot in slots]
        self._slot_dtypes = [torch_dtype(tensor.dtype) for tensor in slot_plan.parameters]
        self._buffer_spans = pair_spans(plan.buffers, slot_plan.buffers)  # in the weights, and in a slot
        max_results = 2 * len(plan.parameters) * layout.batches_per_group  # losses and flags
        max_results += sum(len(bucket.parameters) for bucket in plan.buckets)  # flags that `hand_over` returns
        self._host_results = torch.empty(8 * max_results, dtype=torch.uint8, pin_memory=True)
        self._outcomes = Outcomes(streams.device, max_results)
        self._slot = 0
        self._list_memory = list_memory
        self._member_of = layout.member_of
        self._group = Group((), self._member_of)
        self._batch_index = -1  # in the group
        self._row_indices = RowIndices(streams.device, streams.inward)
        self._gradients: dict[int, Tensor] = {}  # by parameter, until all buckets that hold it are handed over

    def load(self, version: int) -> None:
        self._weights.load(version)

    def load_average(self, version: int) -> None:
        self._weights.load_average(version)

    def forget_version(self) -> None:
        self._weights.forget_version()

    def start_contribution(self, slot: int, batches: Sequence[GroupBatch]) -> None:
        self._slot, self._batch_index, self._gradients = slot, -1, {}
        self._outcomes.start_group()
        self._group = Group(batches, self._member_of)
        if self._lists.nbytes:
            self._lists.write(self._list_memory[slot], self._group)
        if len(batches) > 1:  # `load` waits until these indices are copied
            tables = {
                (self._member_of[index], tensor.sparse_field)
                for index, tensor in enumerate(self._plan.parameters)
                if tensor.sparse_field is not None
            }
            self._row_indices.start_group(self._group, sorted(tables))

    def start_batch(self) -> None:
        self._batch_index += 1
        self._outcomes.start_batch()

    def put_gradient(self, parameter: int, gradient: Tensor) -> Tensor:
        self._gradients[parameter] = self._add_to_group(parameter, gradient).contiguous()
        rounded_to = gradient.dtype if self._has_several_batches else self._slot_dtypes[parameter]
        return self._outcomes.check(gradient, rounded_to)

    def _add_to_group(self, parameter: int, gradient: Tensor) -> Tensor:
        """Returns the sum of a parameter's gradient and the gradients of the group's earlier batches."""
        if not self._has_several_batches:
            return gradient
        group_sum, field = self._gradients.get(parameter), self._plan.parameters[parameter].sparse_field
        if field is None:
            return gradient if group_sum is None else group_sum + gradient
        indices = self._row_indices.of_batch(self._batch_index, self._member_of[parameter], field)
        if group_sum is None:
            num_rows = len(self._group.touched(parameter, field))
            return gradient.new_zeros(num_rows, *gradient.shape[1:]).index_copy_(0, indices, gradient)
        return group_sum.index_copy_(0, indices, group_sum.index_select(0, indices) + gradient)

    def gradient_memory(self, parameter: int) -> Tensor:
        raise AssertionError(f"the rows of parameter {parameter} are put")

    def mark_written(self, parameter: int, bucket: Bucket) -> None:
        raise AssertionError(f"the rows of parameter {parameter} in {bucket} are put")

    def hand_over(self, bucket: Bucket, on_done: Callable[[], object]) -> Mapping[int, Tensor]:
        self._streams.outward.wait_stream(self._streams.current_stream)
        present = [parameter for parameter in bucket.parameters if parameter in self._gradients]
        pairs = {parameter: self._pair_with_slot(parameter, bucket) for parameter in present}
        span = self._timeline.start_span(self._streams.outward)
        with self._streams.outward:
            for parameter, (gradient, slot_gradient) in pairs.items():
                self._copy_to_slot(gradient, slot_gradient)
                if bucket.rows is None or bucket.rows[1] == self._plan.parameters[parameter].shape[0]:
                    del self._gradients[parameter]
        if self._streams.stepping is None:
            self._event_waiter.call_after(record_host_event(self._streams.outward), on_done)
        else:
            on_done()  # the reader waits on the device
        if span is not None:
            self._timeline.end_span(span, COPIES_OUT, "bucket", bucket=self._plan.buckets.index(bucket))
        if not self._has_several_batches:
            return {}  # `put_gradient` has checked what is handed over
        return {
            parameter: self._outcomes.check(gradient, slot_gradient.dtype)
            for parameter, (gradient, slot_gradient) in pairs.items()
            if slot_gradient.dtype != gradient.dtype
        }

    def put_buffers(self) -> None:
        self._streams.outward.wait_stream(self._streams.current_stream)
        with self._streams.outward:
            for spans in self._buffer_spans:
                buffer = self._weights.buffer_bytes(spans.first)
                self._slots[self._slot][spans.second].copy_(buffer, non_blocking=True)

    def read_results(self, losses: Tensor, flags: Sequence[Tensor]) -> tuple[list[float], list[bool]]:
        results = self._outcomes.gather(losses, flags)
        host_results = self._host_results[: results.nbytes].view(results.dtype)
        self._streams.outward.wait_stream(self._streams.current_stream)
        with self._streams.outward:
            host_results.copy_(results, non_blocking=True)
        self._event_waiter.wait(record_host_event(self._streams.outward, spins=self._spins))
        return self._outcomes.decode(host_results.numpy())

    @property
    def _has_several_batches(self) -> bool:
        """Returns whether the group has several batches, whose gradients are added up."""
        return len(self._group.batches) > 1

    def _pair_with_slot(self, parameter: int, bucket: Bucket) -> tuple[Tensor, Tensor]:
        """Returns what a bucket holds of a parameter's gradient, and the part of the slot where it belongs."""
        gradient, slot_gradient = self._gradients[parameter], self._slot_gradients[self._slot][parameter]
        field = self._plan.parameters[parameter].sparse_field
        if field is None:
            return gradient, slot_gradient
        rows = compact_rows(self._group.touched(parameter, field), bucket, len(slot_gradient))
        return gradient[rows], slot_gradient[rows]

    def _copy_to_slot(self, gradient: Tensor, slot_gradient: Tensor) -> None:
        """Queues the copy of a gradient to the slot, rounded to the slot's type.

        A copy between devices would send the wider numbers and round them afterwards, so this rounds first.
        """
        is_same_device = slot_gradient.device == gradient.device
        source = gradient if is_same_device else gradient.to(slot_gradient.dtype)
        slot_gradient.copy_(source, non_blocking=True)
        gradient.record_stream(self._streams.outward)


@dataclass(frozen=True)
class _BatchRows:
    """The indices of the rows that a batch touches of a table, among those that its group touches, in host memory."""

    batch_index: int
    member: int
    field: str
    indices: npt.NDArray[np.int64]


class RowIndices:
    """The indices of a batch's touched rows among the touched rows of its whole group, on the device.

    They are stored for one group at a time, and copied to the device once a group, from page-locked memory.
    """

    def __init__(self, device: torch.device, stream: torch.Stream) -> None:
        """Begins without a group. `stream`: the stream that copies."""
        self._device = device
        self._stream = stream
        self._host = torch.empty(0, dtype=torch.int64)
        self._indices: dict[tuple[int, int, str], Tensor] = {}  # by batch, member, sparse field

    def start_group(self, group: Group, tables: Iterable[tuple[int, str]]) -> None:
        """Computes the indices for a group and queues their copy. `tables`: (member, sparse field) of each table.

        The device must have finished all work that uses the indices of the previous group.
        """
        all_rows: list[_BatchRows] = []
        for member, field in tables:
            group_rows = group.touched_by_member(member, field)
            for index, batch in enumerate(group.batches):
                if member not in batch.left_out:
                    indices = np.searchsorted(group_rows, batch.touched[field])
                    all_rows.append(_BatchRows(index, member, field, indices))
        total = sum(len(rows.indices) for rows in all_rows)
        if len(self._host) < total:
            self._host = torch.empty(total, dtype=torch.int64, pin_memory=True)
        self._indices = {}
        begin = 0
        with self._stream:
            on_device = torch.empty(total, dtype=torch.int64, device=self._device)
            for rows in all_rows:
                end = begin + len(rows.indices)
                self._host[begin:end].numpy()[:] = rows.indices
                self._indices[rows.batch_index, rows.member, rows.field] = on_device[begin:end]
                begin = end
            on_device.copy_(self._host[:total], non_blocking=True)

    def of_batch(self, batch_index: int, member: int, field: str) -> Tensor:
        """Returns the indices for one batch of the group, int64 [rows that the batch touches]."""
        return self._indices[batch_index, member, field]
