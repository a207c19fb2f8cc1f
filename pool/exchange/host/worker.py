"""The exchange of a worker on a CPU: its parameters are views of the shared weights, and gradients are written to its
gradient slot, rounded if the slot has a smaller type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pool import _native
from pool.exchange.host.group_sum import GroupSum
from pool.exchange.host.rounded_slots import RoundedSlots
from pool.exchange.interface import GroupBatch
from pool.exchange.layout import Layout
from pool.exchange.plan import Bucket
from pool.exchange.tensors import replace_tensors, trained_parameters, untrained_tensors, view_array_as_tensors
from pool.exchange.touched_rows import Group
from pool.kernels.sparse import backend_for

Slot = npt.NDArray[np.uint8]


class HostWorker:
    """Implements `WorkerExchange` in shared memory of the host.

    The parameters are views of the weights. The layer's own backward writes the rows of a table's gradient to
    `gradient_memory`. If slots have a smaller type, gradients are computed in private memory and rounded as they are
    handed over.
    """

    uses_compact_rows = False

    def __init__(
        self,
        model: nn.Module,
        layout: Layout,
        *,
        halves: Sequence[Slot],
        slots: Sequence[Slot],
        average: Slot | None = None,
    ) -> None:
        """Points the parameters of `model`, which is on the meta device, to shared memory.

        `halves`: the memory of versions with even and with odd numbers; `average`: that of the averaged weights;
        `slots`: the worker's own gradient slots.
        """
        plan, slot_plan = layout.plan, layout.slot_plan
        self._weights = [view_array_as_tensors(half, plan.parameters) for half in halves]
        self._buffers = [view_array_as_tensors(half, plan.buffers) for half in halves]
        self._average = [] if average is None else view_array_as_tensors(average, (*plan.parameters, *plan.buffers))
        self._rounded = None if slot_plan == plan else RoundedSlots(plan, slot_plan, slots)
        float32_slots = slots if self._rounded is None else [self._rounded.memory] * len(slots)
        self._slots = [view_array_as_tensors(slot, plan.parameters) for slot in float32_slots]
        self._slot_buffers = [view_array_as_tensors(slot, slot_plan.buffers) for slot in slots]
        replace_tensors(model, [*self._weights[0], *map(torch.empty_like, self._buffers[0])])
        self._parameters = [parameter for _, parameter in trained_parameters(model)]
        self._model_buffers = [tensor for _, tensor in untrained_tensors(model)]
        self._version = -1
        self._slot = 0
        self._lists = layout.touched_lists
        self._list_memory = [slot[slot_plan.nbytes :] for slot in slots]
        self._member_of = layout.member_of
        self._group = Group((), self._member_of)
        self._present: set[int] = set()  # parameters that have a gradient in the slot
        self._group_sum = GroupSum(plan, float32_slots) if layout.batches_per_group > 1 else None

    def load(self, version: int) -> None:
        if version != self._version:
            self._version = version
            self._point_parameters(self._weights[version % 2])
        self._copy_buffers(self._buffers[version % 2])

    def load_average(self, version: int) -> None:  # noqa: ARG002
        self._version = -1
        num_parameters = len(self._parameters)
        self._point_parameters(self._average[:num_parameters])
        self._copy_buffers(self._average[num_parameters:])

    def forget_version(self) -> None:
        self._version = -1

    def start_contribution(self, slot: int, batches: Sequence[GroupBatch]) -> None:
        self._slot, self._present = slot, set()
        self._group = Group(batches, self._member_of)
        if self._group_sum is not None:
            self._lists.write(self._list_memory[slot], self._group)
            self._group_sum.start_group(slot, self._group)

    def start_batch(self) -> None:
        if self._group_sum is not None:
            self._group_sum.start_batch()

    def put_gradient(self, parameter: int, gradient: Tensor) -> Tensor | bool:
        memory = self.gradient_memory(parameter)
        is_finite: Tensor | bool
        if backend_for(gradient) == "cpu" and gradient.is_contiguous():
            is_finite = _native.copy_checked(memory.view(-1), gradient.view(-1))
        else:
            memory.copy_(gradient)
            is_finite = gradient.isfinite().all()
        if self._group_sum is not None:
            self._group_sum.add_written(parameter)
        return is_finite

    def gradient_memory(self, parameter: int) -> Tensor:
        self._present.add(parameter)
        if self._group_sum is not None:
            return self._group_sum.gradient_memory(parameter)
        return self._slots[self._slot][parameter]

    def mark_written(self, parameter: int, bucket: Bucket) -> None:
        if self._group_sum is not None:
            self._group_sum.add_written(parameter, bucket.rows)

    def hand_over(self, bucket: Bucket, on_done: Callable[[], object]) -> Mapping[int, bool]:
        finite: Mapping[int, bool] = {}
        if self._rounded is not None:
            finite = self._rounded.round_bucket(bucket, self._slot, self._group, self._present)
        on_done()
        return finite

    def put_buffers(self) -> None:
        for slot_buffer, buffer in zip(self._slot_buffers[self._slot], self._model_buffers, strict=True):
            slot_buffer.copy_(buffer)

    def read_results(self, losses: Tensor, flags: Sequence[Tensor]) -> tuple[list[float], list[bool]]:
        return losses.tolist(), torch.stack(list(flags)).tolist() if flags else []

    def _point_parameters(self, weights: Sequence[Tensor]) -> None:
        """Lets the model's parameters be views of these weights."""
        for parameter, weight in zip(self._parameters, weights, strict=True):
            parameter.data = weight

    def _copy_buffers(self, buffers: Sequence[Tensor]) -> None:
        for tensor, buffer in zip(self._model_buffers, buffers, strict=True):
            tensor.copy_(buffer)
