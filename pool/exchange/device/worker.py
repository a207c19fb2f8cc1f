"""A worker's end where the model lies in a device's memory: gradients leave the stream that computes by asynchronous
copies on another one, to page-locked memory of the host, or to the coordinator's on the same device.

Of a table a gradient slot has the touched rows alone, one after the other from the place of the first row on
(`compact_rows`). What the slot holds in a narrower type is rounded on the device, before it travels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pool.device.event_waiter import Arrivals, host_event
from pool.device.timeline import COPIES_OUT, Bars, NoBars
from pool.exchange.device.weights import DeviceWeights, Streams, moves
from pool.exchange.interface import GroupBatch
from pool.exchange.layout import Layout
from pool.exchange.plan import Bucket
from pool.exchange.tensors import torch_dtype, views_of
from pool.exchange.touched_rows import Group, compact_rows
from pool.kernels.finite import Outcomes

Slot = npt.NDArray[np.uint8]


class DeviceWorker:
    """A WorkerExchange. Only `read` waits for the device."""

    puts_rows = True

    def __init__(
        self,
        layout: Layout,
        weights: DeviceWeights,
        streams: Streams,
        arrivals: Arrivals,
        *,
        slots: Sequence[Tensor],
        list_memory: Sequence[Slot],
        bars: Bars | None = None,
        spins: bool = False,
    ) -> None:
        """`slots`: the worker's own, uint8, in host memory or on the device; `list_memory`: of each the place of its
        touched lists; `spins`: whoever waits for the outcome of a group keeps a core busy."""
        slot_plan, self._lists = layout.slot_plan, layout.touched_lists
        self._plan = plan = layout.plan
        self._bars = bars or NoBars()
        self._spins = spins
        self._weights = weights
        self._streams = streams
        self._arrivals = arrivals
        self._slots = slots
        self._places = [views_of(slot, slot_plan.parameters) for slot in slots]
        self._dtypes = [torch_dtype(tensor.dtype) for tensor in slot_plan.parameters]  # that are handed over
        self._buffers = moves(plan.buffers, slot_plan.buffers)
        most = 2 * len(plan.parameters) * layout.batches_per_group  # losses and flags
        most += sum(len(bucket.parameters) for bucket in plan.buckets)  # of what groups hand over
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

    def forget(self) -> None:
        self._weights.forget()

    def begin(self, slot: int, batches: Sequence[GroupBatch]) -> None:
        self._slot, self._batch, self._made = slot, -1, {}
        self._outcomes.begin()
        self._group = Group(batches, self._member_of)
        if self._lists.nbytes:
            self._lists.write(self._list_memory[slot], self._group)
        if len(batches) > 1:  # `load` waits for the copy
            tables = [(i, t.sparse_field) for i, t in enumerate(self._plan.parameters) if t.sparse_field is not None]
            self._places_of_rows.begin(self._group, sorted({(self._member_of[i], field) for i, field in tables}))

    def begin_batch(self) -> None:
        self._batch += 1
        self._outcomes.begin_batch()

    def put(self, parameter: int, gradient: Tensor) -> Tensor:
        self._made[parameter] = self._added(parameter, gradient).contiguous()
        return self._outcomes.check(gradient, gradient.dtype if self._adds_up else self._dtypes[parameter])

    def _added(self, parameter: int, gradient: Tensor) -> Tensor:
        """To what the batches before have given."""
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

    def rows(self, parameter: int) -> Tensor:
        raise AssertionError(f"the rows of parameter {parameter} are put")

    def written(self, parameter: int, bucket: Bucket) -> None:
        raise AssertionError(f"the rows of parameter {parameter} in {bucket} are put")

    def hand_over(self, bucket: Bucket, then: Callable[[], object]) -> Mapping[int, Tensor]:
        self._streams.outward.wait_stream(self._streams.here)
        made = {parameter: self._part(parameter, bucket) for parameter in bucket.parameters if parameter in self._made}
        begun = self._bars.begin(self._streams.outward)
        with self._streams.outward:
            for parameter, (gradient, place) in made.items():
                self._send(gradient, place)
                if bucket.rows is None or bucket.rows[1] == self._plan.parameters[parameter].shape[0]:
                    del self._made[parameter]
        if self._streams.stepping is None:
            self._arrivals.when(host_event(self._streams.outward), then)
        else:
            then()  # who reads it waits on the device
        if begun is not None:
            self._bars.end(begun, COPIES_OUT, "bucket", bucket=self._plan.buckets.index(bucket))
        if not self._adds_up:
            return {}
        rounded = {p: gradient for p, (gradient, place) in made.items() if place.dtype != gradient.dtype}
        return {p: self._outcomes.check(gradient, self._dtypes[p]) for p, gradient in rounded.items()}

    def put_buffers(self) -> None:
        self._streams.outward.wait_stream(self._streams.here)
        with self._streams.outward:
            for own, place in self._buffers:
                self._slots[self._slot][place].copy_(self._weights.own(own), non_blocking=True)

    def read(self, losses: Tensor, flags: Sequence[Tensor]) -> tuple[list[float], list[bool]]:
        numbers = self._outcomes.gather(losses, flags)
        place = self._numbers[: numbers.nbytes].view(numbers.dtype)
        self._streams.outward.wait_stream(self._streams.here)
        with self._streams.outward:
            place.copy_(numbers, non_blocking=True)
        self._arrivals.wait(host_event(self._streams.outward, spins=self._spins))
        return self._outcomes.decode(place.numpy())

    @property
    def _adds_up(self) -> bool:
        """Several batches' gradients."""
        return len(self._group.batches) > 1

    def _part(self, parameter: int, bucket: Bucket) -> tuple[Tensor, Tensor]:
        """Returns the part of a gradient that a bucket holds, and its place in the slot."""
        gradient, place = self._made[parameter], self._places[self._slot][parameter]
        field = self._plan.parameters[parameter].sparse_field
        if field is None:
            return gradient, place
        rows = compact_rows(self._group.touched(parameter, field), bucket, len(place))
        return gradient[rows], place[rows]

    def _send(self, gradient: Tensor, place: Tensor) -> None:
        """Queues the copy. To another device's memory, numbers of another type would be copied before they are
        rounded."""
        there = gradient if place.device == gradient.device else gradient.to(place.dtype)
        place.copy_(there, non_blocking=True)
        gradient.record_stream(self._streams.outward)


class RowPlaces:
    """The places of the rows that a batch touches among those of its group, of one group at a time: numbers that travel
    to the device once a group, from page-locked memory."""

    def __init__(self, device: torch.device, stream: torch.Stream) -> None:
        """`stream`: that copies."""
        self._device = device
        self._stream = stream
        self._host = torch.empty(0, dtype=torch.int64)
        self._places: dict[tuple[int, int, str], Tensor] = {}

    def begin(self, group: Group, tables: Iterable[tuple[int, str]]) -> None:
        """Queues the copy. The device has done all that uses those of the group before. `tables`: (member, sparse
        field)."""
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
        """int64 [rows that the batch, by its index in the group, touches]."""
        return self._places[batch, member, field]
