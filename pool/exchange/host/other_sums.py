"""Keeps the sums of gradients that other machines have sent, until their step is done. They stay in the messages'
memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pool.errors import ProtocolError
from pool.exchange.groups import Contribution, Groups
from pool.exchange.layout import Layout
from pool.exchange.plan import Bucket
from pool.exchange.plan import Tensor as Planned
from pool.exchange.tensors import torch_dtype
from pool.kernels.fold import Addend
from pool.protocol.messages import BucketSums, SumHeader

_Piece = tuple[int, int]  # parameter, numbered through all members, and first row


class OtherSums:
    """The sums that other machines have computed of their shares of steps, and the buffers that came with them."""

    def __init__(self, layout: Layout, groups: Groups) -> None:
        self._plan = layout.plan
        self._groups = groups
        self._buffers_of = [len(plan.buffers) for plan in layout.plans]
        self._sums: dict[tuple[int, int], dict[_Piece, list[Addend]]] = {}  # by (step, machine)
        self._buffers: dict[tuple[int, int], list[Tensor]] = {}  # of all members, by (step, machine)

    def put(self, machine: int, message: BucketSums, frames: Sequence[memoryview]) -> None:
        """Keeps the sums that another machine adds to a bucket, in place of earlier ones for the same step and bucket.

        Raises ProtocolError if the message's frames are not sums of that bucket's gradients.
        """
        if not 0 <= message.bucket < len(self._plan.buckets):
            raise ProtocolError(f"bucket {message.bucket} of {len(self._plan.buckets)}")
        bucket, left = self._plan.buckets[message.bucket], list(frames)
        found: dict[_Piece, list[Addend]] = {piece: [] for piece in self._pieces(bucket)}
        for header in message.sums:
            if (header.parameter, header.first_row) not in found:
                raise ProtocolError(f"{header}: no piece of bucket {message.bucket}")
            found[header.parameter, header.first_row].append(self._addend(bucket, header, left))
        if left:
            raise ProtocolError(f"{len(left)} frames too many for bucket {message.bucket}")
        self._sums.setdefault((message.step, machine), {}).update(found)

    def put_buffers(self, machine: int, step: int, frames: Sequence[memoryview]) -> None:
        """Keeps the model's buffers as they were after the first batch of the step.

        Raises ProtocolError if they have other sizes than the model's buffers.
        """
        buffers = self._plan.buffers
        if [frame.nbytes for frame in frames] != [buffer.nbytes for buffer in buffers]:
            raise ProtocolError(f"buffers of {[frame.nbytes for frame in frames]} bytes")
        self._buffers[step, machine] = [_tensor(frame, buffer) for frame, buffer in zip(frames, buffers, strict=True)]

    def take(self, contribution: Contribution, parameter: int, first_row: int) -> list[Addend]:
        """Returns the sums that another machine has sent of one part of a parameter, ascending by place in the
        summation tree."""
        return self._sums[self._key(contribution)][parameter, first_row]

    def buffers(self, contribution: Contribution, member: int) -> Sequence[Tensor]:
        """Returns the buffers of one member (network of an ensemble) that came with a contribution."""
        begin = sum(self._buffers_of[:member])
        return self._buffers[self._key(contribution)][begin : begin + self._buffers_of[member]]

    def forget(self, before: int) -> None:
        """Drops what was kept of steps below `before`, which are done."""
        self._sums = {key: sums for key, sums in self._sums.items() if key[0] >= before}
        self._buffers = {key: buffers for key, buffers in self._buffers.items() if key[0] >= before}

    def _key(self, contribution: Contribution) -> tuple[int, int]:
        assert contribution.machine is not None
        return self._groups.step_of(contribution.batches[0]), contribution.machine

    def _pieces(self, bucket: Bucket) -> list[_Piece]:
        first_row = 0 if bucket.rows is None else bucket.rows[0]
        return [(parameter, first_row) for parameter in bucket.parameters]

    def _addend(self, bucket: Bucket, header: SumHeader, frames: list[memoryview]) -> Addend:
        """Takes one sum, and of a table its row numbers, from the front of `frames`. Raises ProtocolError if they do
        not fit."""
        planned = self._plan.parameters[header.parameter]
        first, last = bucket.rows or (0, planned.shape[0] if planned.shape else 1)
        rows, touched = last - first, None
        if (planned.sparse_field is None) != (header.rows < 0) or header.rows > rows:
            raise ProtocolError(f"{header}: {planned.name} has {rows} rows there")
        if len(frames) < 1 + (header.rows >= 0):
            raise ProtocolError(f"{header}: its numbers are missing")
        if header.rows >= 0:
            listed = frames.pop(0)
            if listed.nbytes != 4 * header.rows:
                raise ProtocolError(f"{header}: {listed.nbytes} bytes of row numbers")
            touched = _aligned(listed, 4).view(np.uint32) if header.rows else np.empty(0, np.uint32)
            if header.rows and (touched[0] < first or touched[-1] >= last or np.any(touched[1:] <= touched[:-1])):
                raise ProtocolError(f"{header}: row numbers that do not ascend from {first} to below {last}")
            rows = header.rows
        shape = (rows, *planned.shape[1:]) if planned.shape else ()
        numbers = frames.pop(0)
        if numbers.nbytes != prod(shape) * torch_dtype(planned.dtype).itemsize:
            raise ProtocolError(f"{header}: {numbers.nbytes} bytes for {shape} {planned.dtype}")
        return Addend(header.leaf, _tensor(numbers, planned, shape), touched)


def _tensor(frame: memoryview, planned: Planned, shape: tuple[int, ...] | None = None) -> Tensor:
    """Returns the numbers of a frame as a tensor of the planned dtype. `shape`: None for the planned tensor's own."""
    dtype, shape = torch_dtype(planned.dtype), planned.shape if shape is None else shape
    if not frame.nbytes:
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(_aligned(frame, dtype.itemsize)).view(dtype).view(shape)


def _aligned(frame: memoryview, itemsize: int) -> npt.NDArray[np.uint8]:
    """Returns a frame's bytes, writable and aligned for numbers of this size, as a copy if need be: a message begins
    anywhere."""
    raw = np.frombuffer(frame, np.uint8)
    return raw.copy() if raw.ctypes.data % itemsize or not raw.flags.writeable else raw
