"""A worker's end of an exchange where its model lies in a device's memory.

Gradients are copied asynchronously on a stream beside the one that computes: to page-locked memory of the host, or to
the coordinator's memory on the same device. Of a table a gradient slot has the touched rows alone, one after the other
from the place of the table's first row on (`compact_rows`). If the slot has a narrower type, gradients are rounded on
the device, before they are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pool.device.event_waiter import EventWaiter, record_host_event
from pool.device.timeline import COPIES_OUT, NoTimeline, Timeline
from pool.exchange.device.weights import DeviceWeights, Streams, moves
from pool.exchange.interface import GroupBatch
from pool.exchange.layout import Layout
from pool.exchange.plan import Bucket
from pool.exchange.tensors import torch_dtype, views_of
from pool.exchange.touched_rows import Group, compact_rows
from pool.kernels.finite import Outcomes

Slot = npt.NDArray[np.uint8]


class DeviceWorker:
    """Implements `WorkerExchange` on a device. Only `read` waits for the device."""

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
        the host memory of its lists of touched rows; `timeline`: the trace of copies, if any; `spins`: waiting for the
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
        self._places = [views_of(slot, slot_plan.parameters) for slot in slots]
        self._dtypes = [torch_dtype(tensor.dtype) for tensor in slot_plan.parameters]  # of gradients in a slot
        self._buffers = moves(plan.buffers, slot_plan.buffers)
        most = 2 * len(plan.parameters) * layout.batches_per_group  # losses and flags
        most += sum(len(bucket.parameters) for bucket in plan.buckets)  # flags that `hand_over` returns
        self._numbers = torch.empty(8 * most, dtype=torch.uint8, pin_memory=True)
        self._outcomes = Outcomes(streams.device, most)
        self._slot = 0
        self._list_memory = list_memory
        self._member_of = layout.member_of
        self._group = Group((), self._member_of)
        self._batch = -1  # index in the group
        self._places_of_rows = RowPlaces(streams.device, streams.inward)
        self._made: dict[int, Tensor] = {}  # gradients by parameter, until all buckets that hold them are handed over

    def load(self, version: int) -> None:
        self._weights.load(version)

    def load_average(self, version: int) -> None:
        self._weights.load_average(version)

    def forget_version(self) -> None:
        self._weights.forget()

    def start_contribution(self, slot: int, batches: Sequence[GroupBatch]) -> None:
        self._slot, self._batch, self._made = slot, -1, {}
        self._outcomes.begin()
        self._group = Group(batches, self._member_of)
        if self._lists.nbytes:
            self._lists.write(self._list_memory[slot], self._group)
        if len(batches) > 1:  # `load` waits until these indices are copied
            tables = [(i, t.sparse_field) for i, t in enumerate(self._plan.parameters) if t.sparse_field is not None]
            self._places_of_rows.begin(self._group, sorted({(self._member_of[i], field) for i, field in tables}))

    def start_batch(self) -> None:
        self._batch += 1
        self._outcomes.begin_batch()

    def put_gradient(self, parameter: int, gradient: Tensor) -> Tensor:
        self._made[parameter] = self._added(parameter, gradient).contiguous()
        return self._outcomes.check(gradient, gradient.dtype if self._adds_up else self._dtypes[parameter])

    def _added(self, parameter: int, gradient: Tensor) -> Tensor:
        """Returns the sum of a parameter's gradient and the gradients of the group's earlier batches."""
        before, field = self._made.get(parameter), self._plan.parameters[parameter].sparse_field
        if not self._adds_up:
            return gradient
        if field is None:
            return gradient if before is None else before + gradient
        places = self._places_of_rows.of(self._batch, self._member_of[parameter], field)
        if before is None:
            count = len(self._group.touched(parameter, field))
            return gradient.new_zeros(count, *gradient.shape[1:]).index_copy_(0, places, gradient)
        return before.index_copy_(0, places, before.index_select(0, places) + gradient)

    def gradient_memory(self, parameter: int) -> Tensor:
        raise AssertionError(f"the rows of parameter {parameter} are put")

    def mark_written(self, parameter: int, bucket: Bucket) -> None:
        raise AssertionError(f"the rows of parameter {parameter} in {bucket} are put")

    def hand_over(self, bucket: Bucket, on_done: Callable[[], object]) -> Mapping[int, Tensor]:
        self._streams.outward.wait_stream(self._streams.here)
        made = {parameter: self._part(parameter, bucket) for parameter in bucket.parameters if parameter in self._made}
        span = self._timeline.start_span(self._streams.outward)
        with self._streams.outward:
            for parameter, (gradient, place) in made.items():
                self._send(gradient, place)
                if bucket.rows is None or bucket.rows[1] == self._plan.parameters[parameter].shape[0]:
                    del self._made[parameter]
        if self._streams.stepping is None:
            self._event_waiter.call_after(record_host_event(self._streams.outward), on_done)
        else:
            on_done()  # the reader waits on the device
        if span is not None:
            self._timeline.end_span(span, COPIES_OUT, "bucket", bucket=self._plan.buckets.index(bucket))
        if not self._adds_up:
            return {}
        rounded = {p: gradient for p, (gradient, place) in made.items() if place.dtype != gradient.dtype}
        return {p: self._outcomes.check(gradient, self._dtypes[p]) for p, gradient in rounded.items()}

    def put_buffers(self) -> None:
        self._streams.outward.wait_stream(self._streams.here)
        with self._streams.outward:
            for own, place in self._buffers:
                self._slots[self._slot][place].copy_(self._weights.own(own), non_blocking=True)

    def read_results(self, losses: Tensor, flags: Sequence[Tensor]) -> tuple[list[float], list[bool]]:
        numbers = self._outcomes.gather(losses, flags)
        place = self._numbers[: numbers.nbytes].view(numbers.dtype)
        self._streams.outward.wait_stream(self._streams.here)
        with self._streams.outward:
            place.copy_(numbers, non_blocking=True)
        self._event_waiter.wait(record_host_event(self._streams.outward, spins=self._spins))
        return self._outcomes.decode(place.numpy())

    @property
    def _adds_up(self) -> bool:
        """Returns whether the group has several batches, whose gradients are added up."""
        return len(self._group.batches) > 1

    def _part(self, parameter: int, bucket: Bucket) -> tuple[Tensor, Tensor]:
        """Returns the part of a parameter's gradient that a bucket holds, and its place in the slot."""
        gradient, place = self._made[parameter], self._places[self._slot][parameter]
        field = self._plan.parameters[parameter].sparse_field
        if field is None:
            return gradient, place
        rows = compact_rows(self._group.touched(parameter, field), bucket, len(place))
        return gradient[rows], place[rows]

    def _send(self, gradient: Tensor, place: Tensor) -> None:
        """Queues the copy of a gradient to its place in the slot, rounded to the slot's type.

        A copy between devices would send the wider numbers and round them afterwards, so this rounds first.
        """
        there = gradient if place.device == gradient.device else gradient.to(place.dtype)
        place.copy_(there, non_blocking=True)
        gradient.record_stream(self._streams.outward)


class RowPlaces:
    """The indices of a batch's touched rows among the touched rows of its whole group, on the device.

    They are kept for one group at a time, and copied to the device once a group, from page-locked memory.
    """

    def __init__(self, device: torch.device, stream: torch.Stream) -> None:
        """Begins without a group. `stream`: the stream that copies."""
        self._device = device
        self._stream = stream
        self._host = torch.empty(0, dtype=torch.int64)
        self._places: dict[tuple[int, int, str], Tensor] = {}

    def begin(self, group: Group, tables: Iterable[tuple[int, str]]) -> None:
        """Computes the indices for a group and queues their copy. `tables`: (member, sparse field) of each table.

        The device must have finished all work that uses the indices of the previous group.
        """
        wanted = [
            (i, member, field, np.searchsorted(group.touched_by(member, field), batch.touched[field]))
            for member, field in tables
            for i, batch in enumerate(group.batches)
            if member not in batch.left_out
        ]
        total = sum(len(places) for *_, places in wanted)
        if len(self._host) < total:
            self._host = torch.empty(total, dtype=torch.int64, pin_memory=True)
        self._places = {}
        begin = 0
        with self._stream:
            there = torch.empty(total, dtype=torch.int64, device=self._device)
            for i, member, field, places in wanted:
                end = begin + len(places)
                self._host[begin:end].numpy()[:] = places
                self._places[i, member, field] = there[begin:end]
                begin = end
            there.copy_(self._host[:total], non_blocking=True)

    def of(self, batch: int, member: int, field: str) -> Tensor:
        """Returns the indices for one batch of the group, int64 [rows that the batch touches]. `batch`: its index in
        the group."""
        return self._places[batch, member, field]
