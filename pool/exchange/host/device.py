"""A worker's end where the model lies in a device's own memory: everything that travels is an asynchronous copy between
that and page-locked memory of the host, on streams beside the one that computes.

A gradient slot has the layout of the plan, but of a table it has the touched rows alone, one after the other from the
place of the first row on (`compact_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pool.accelerator.arrivals import Arrivals
from pool.buckets.plan import ALIGNMENT, Bucket, Plan
from pool.buckets.plan import Tensor as PlannedTensor
from pool.buckets.tensors import carried, replace_tensors, trained, views, views_of
from pool.exchange.host.compact import compact_rows
from pool.exchange.host.group import Group
from pool.exchange.host.lists import NO_LISTS, TouchedLists
from pool.exchange.host.row_places import RowPlaces
from pool.exchange.interface import GroupBatch

Slot = npt.NDArray[np.uint8]


class DeviceWorker:
    """A WorkerExchange. Only `read` waits for the device."""

    puts_rows = True

    def __init__(
        self,
        model: nn.Module,
        plan: Plan,
        device: torch.device,
        arrivals: Arrivals,
        *,
        halves: Sequence[Slot],
        slots: Sequence[Slot],
        average: Slot | None = None,
        lists: TouchedLists = NO_LISTS,
        member_of: Sequence[int] = (),
    ) -> None:
        """`model`: on the meta device; `halves`: the two versions' memory; `average`: that of their average; `slots`:
        the worker's own; `member_of`: of each parameter, if groups of batches are added up."""
        self._plan = plan
        self._device = device
        self._arrivals = arrivals
        self._halves = [torch.from_numpy(half) for half in halves]
        self._average = None if average is None else torch.from_numpy(average)
        self._slots = [torch.from_numpy(slot) for slot in slots]
        self._places = [views(slot, plan.parameters) for slot in slots]
        self._inward = torch.Stream(device=device)
        self._outward = torch.Stream(device=device)
        self._memory = torch.empty(plan.nbytes, dtype=torch.uint8, device=device)
        names = [name for name, _ in trained(model)] + [name for name, _ in carried(model)]
        # `data`: or all would count as changed when one of them is
        tensors = [view.data for view in views_of(self._memory, [*plan.parameters, *plan.buffers])]
        replace_tensors(model, list(zip(names, tensors, strict=True)))
        self._buffers = spans(plan.buffers)
        self._all = spans([*plan.parameters, *plan.buffers])
        most = 2 * len(plan.parameters) * lists.batches_per_group  # losses and flags
        self._numbers = torch.empty(most, dtype=torch.float64, pin_memory=True)
        self._version = -1
        self._slot = 0
        self._lists = lists
        self._list_memory = [slot[plan.nbytes :] for slot in slots]
        self._member_of = member_of or (0,) * len(plan.parameters)
        self._group = Group((), self._member_of)
        self._batch = -1  # index in the group
        self._places_of_rows = RowPlaces(device, self._inward)
        self._made: dict[int, Tensor] = {}  # gradients by parameter, until all buckets that hold them are handed over

    def load(self, version: int) -> None:
        places = self._buffers if version == self._version else self._all
        self._version = version
        self._copy(self._halves[version % 2], places)

    def load_average(self, version: int) -> None:  # noqa: ARG002
        assert self._average is not None
        self._version = -1
        self._copy(self._average, self._all)

    def forget(self) -> None:
        self._version = -1

    def begin(self, slot: int, batches: Sequence[GroupBatch]) -> None:
        self._slot, self._batch, self._made = slot, -1, {}
        self._group = Group(batches, self._member_of)
        if self._lists.nbytes:
            self._lists.write(self._list_memory[slot], self._group)
        if len(batches) > 1:  # `load` waits for the copy
            tables = [(i, t.sparse_field) for i, t in enumerate(self._plan.parameters) if t.sparse_field is not None]
            self._places_of_rows.begin(self._group, sorted({(self._member_of[i], field) for i, field in tables}))

    def begin_batch(self) -> None:
        self._batch += 1

    def put(self, parameter: int, gradient: Tensor) -> Tensor:
        self._made[parameter] = self._added(parameter, gradient).contiguous()
        return gradient.isfinite().all()

    def _added(self, parameter: int, gradient: Tensor) -> Tensor:
        """To what the batches before have given."""
        before, field = self._made.get(parameter), self._plan.parameters[parameter].sparse_field
        if len(self._group.batches) == 1:
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

    def hand_over(self, bucket: Bucket, then: Callable[[], object]) -> None:
        self._outward.wait_stream(self._here())
        with self._outward:
            for parameter in bucket.parameters:
                if parameter in self._made:
                    self._send(parameter, bucket)
        self._arrivals.when(self._outward.record_event(), then)

    def put_buffers(self) -> None:
        self._outward.wait_stream(self._here())
        with self._outward:
            for place in self._buffers:
                self._slots[self._slot][place].copy_(self._memory[place], non_blocking=True)

    def read(self, losses: Tensor, flags: Sequence[Tensor]) -> tuple[list[float], list[bool]]:
        numbers = losses.detach().to(torch.float64)
        if flags:
            numbers = torch.cat([numbers, torch.stack(list(flags)).to(torch.float64)])
        place = self._numbers[: len(numbers)]
        self._outward.wait_stream(self._here())
        with self._outward:
            place.copy_(numbers, non_blocking=True)
        self._arrivals.wait(self._outward.record_event())
        found = place.tolist()
        return found[: len(losses)], [bool(flag) for flag in found[len(losses) :]]

    def _copy(self, source: Tensor, places: Sequence[slice]) -> None:
        """These places of the weights, from the host."""
        here = self._here()
        self._inward.wait_stream(here)
        self._inward.wait_stream(self._outward)  # the buffers of the batch before may be on their way
        with self._inward:
            for place in places:
                self._memory[place].copy_(source[place], non_blocking=True)
        here.wait_stream(self._inward)

    def _send(self, parameter: int, bucket: Bucket) -> None:
        """Queues the copy of what a bucket holds of a gradient."""
        gradient, place = self._made[parameter], self._places[self._slot][parameter]
        field = self._plan.parameters[parameter].sparse_field
        if field is not None:
            rows = compact_rows(self._group.touched(parameter, field), bucket, len(place))
            gradient, place = gradient[rows], place[rows]
        place.copy_(gradient, non_blocking=True)
        gradient.record_stream(self._outward)
        if bucket.rows is None or bucket.rows[1] == self._plan.parameters[parameter].shape[0]:
            del self._made[parameter]

    def _here(self) -> torch.Stream:
        return torch.accelerator.current_stream(self._device)


def spans(tensors: Sequence[PlannedTensor]) -> list[slice]:
    """The bytes that hold them, in as few pieces as can be."""
    found: list[slice] = []
    for tensor in sorted(tensors, key=lambda tensor: tensor.offset):
        end = tensor.offset + tensor.nbytes
        if found and tensor.offset - found[-1].stop < ALIGNMENT:  # nothing else fits between
            found[-1] = slice(found[-1].start, end)
        else:
            found.append(slice(tensor.offset, end))
    return found
