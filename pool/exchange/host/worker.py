"""A worker's end: weights read where they lie or copied to the device, gradients written or copied to the slot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pool import _native
from pool.buckets.plan import Bucket, Plan
from pool.buckets.tensors import carried, replace_tensors, row_sparse_tables, rows_of, trained, views
from pool.nn.kernels import is_native

Slot = npt.NDArray[np.uint8]


class HostWorker:
    """A WorkerExchange. On a CPU the parameters are views of the weights, and nothing is copied."""

    def __init__(
        self, model: nn.Module, plan: Plan, device: torch.device, *, halves: Sequence[Slot], slots: Sequence[Slot]
    ) -> None:
        """`model`: on the meta device; `halves`: the two versions' memory; `slots`: the worker's own."""
        self._weights = [views(half, plan.parameters) for half in halves]
        self._buffers = [views(half, plan.buffers) for half in halves]
        self._slots = [views(slot, plan.parameters) for slot in slots]
        self._slot_buffers = [views(slot, plan.buffers) for slot in slots]
        self._on_cpu = device.type == "cpu"
        parameters = [w if self._on_cpu else torch.empty_like(w, device=device) for w in self._weights[0]]
        buffers = [torch.empty_like(b, device=device) for b in self._buffers[0]]
        names = [name for name, _ in trained(model)]
        carried_names = [name for name, _ in carried(model)]
        replace_tensors(model, [*zip(names, parameters, strict=True), *zip(carried_names, buffers, strict=True)])
        self._parameters = [parameter for _, parameter in trained(model)]
        self._carried = [tensor for _, tensor in carried(model)]
        index = {parameter: i for i, parameter in enumerate(self._parameters)}
        self._on_device = {  # tables' gradients before they are copied to the slot
            index[table.weight]: torch.zeros_like(table.weight, requires_grad=False)
            for table in row_sparse_tables(model)
            if not self._on_cpu
        }
        self._version = -1
        self._slot = 0

    def load(self, version: int) -> None:
        if version != self._version:
            self._version = version
            for parameter, weight in zip(self._parameters, self._weights[version % 2], strict=True):
                if self._on_cpu:
                    parameter.data = weight
                else:
                    parameter.data.copy_(weight)
        for tensor, buffer in zip(self._carried, self._buffers[version % 2], strict=True):
            tensor.copy_(buffer)

    def forget(self) -> None:
        self._version = -1

    def begin(self, slot: int) -> None:
        self._slot = slot

    def put(self, parameter: int, gradient: Tensor) -> Tensor | bool:
        place = self._slots[self._slot][parameter]
        if is_native(gradient) and gradient.is_contiguous():
            return _native.copy_checked(place.view(-1), gradient.view(-1))
        place.copy_(gradient)
        return gradient.isfinite().all()

    def rows(self, parameter: int) -> Tensor:
        return self._on_device.get(parameter, self._slots[self._slot][parameter])

    def hand_over(self, bucket: Bucket) -> None:
        for parameter in bucket.parameters:
            if parameter in self._on_device:  # copying waits for the device
                place = rows_of(self._slots[self._slot][parameter], bucket)
                place.copy_(rows_of(self._on_device[parameter], bucket))

    def put_buffers(self) -> None:
        for place, tensor in zip(self._slot_buffers[self._slot], self._carried, strict=True):
            place.copy_(tensor)
