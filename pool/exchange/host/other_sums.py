"""Stores the sums of gradients that other machines have sent, until their step is done. They stay in the messages'
memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

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
from pool.kernels.reduction import Addend, Touched
from pool.protocol.messages import BucketSums, SumHeader

_ROW_NUMBER_NBYTES = 4  # uint32


class _ShareKey(NamedTuple):
    """A machine's share of a step."""

    step: int
    machine: int


class _ShardKey(NamedTuple):
    """The part of a parameter that one bucket holds."""

    parameter: int  # numbered through all members
    first_row: int


class OtherSums:
    """The sums that other machines have computed of their shares of steps, and the buffers that came with them."""

    def __init__(self, layout: Layout, groups: Groups) -> None:
        self._plan = layout.plan
        self._groups = groups
        self._num_buffers = [len(plan.buffers) for plan in layout.plans]  # of each member
        self._sums: dict[_ShareKey, dict[_ShardKey, list[Addend]]] = {}
        self._buffers: dict[_ShareKey, list[Tensor]] = {}  # of all members

    def store(self, machine: int, message: BucketSums, frames: Sequence[memoryview]) -> None:
        """Stores the sums that another machine adds to a bucket, in place of earlier ones for the same step and bucket.

        Raises ProtocolError if the message's frames are not sums of that bucket's gradients.
        """
        if not 0 <= message.bucket < len(self._plan.buckets):
            raise ProtocolError(f"bucket {message.bucket} of {len(self._plan.buckets)}")
        bucket, remaining_frames = self._plan.buckets[message.bucket], list(frames)
        first_row = 0 if bucket.rows is None else bucket.rows[0]
        sums: dict[_ShardKey, list[Addend]] = {_ShardKey(index, first_row): [] for index in bucket.parameters}
        for header in message.sums:
            key = _ShardKey(header.parameter, header.first_row)
            if key not in sums:
                raise ProtocolError(f"{header}: no piece of bucket {message.bucket}")
            sums[key].append(self._pop_addend(bucket, header, remaining_frames))
        if remaining_frames:
            raise ProtocolError(f"{len(remaining_frames)} frames too many for bucket {message.bucket}")
        self._sums.setdefault(_ShareKey(message.step, machine), {}).update(sums)

    def store_buffers(self, machine: int, step: int, frames: Sequence[memoryview]) -> None:
        """Stores the model's buffers as another machine's first batch of a step has left them.

        Raises ProtocolError if they have other sizes than the model's buffers.
        """
        buffers = self._plan.buffers
        if [frame.nbytes for frame in frames] != [buffer.nbytes for buffer in buffers]:
            raise ProtocolError(f"buffers of {[frame.nbytes for frame in frames]} bytes")
        tensors = [_as_tensor(frame, buffer, buffer.shape) for frame, buffer in zip(frames, buffers, strict=True)]
        self._buffers[_ShareKey(step, machine)] = tensors

    def read(self, contribution: Contribution, parameter: int, first_row: int) -> list[Addend]:
        """Returns the sums that another machine has sent of one shard of a parameter, ascending by leaf of the
        summation tree."""
        return self._sums[self._share_key(contribution)][_ShardKey(parameter, first_row)]

    def buffers(self, contribution: Contribution, member: int) -> Sequence[Tensor]:
        """Returns the buffers of one member (network of an ensemble) that came with a contribution."""
        first = sum(self._num_buffers[:member])
        return self._buffers[self._share_key(contribution)][first : first + self._num_buffers[member]]

    def drop_steps_before(self, step: int) -> None:
        """Drops what is stored of earlier steps, which are done."""
        self._sums = {key: sums for key, sums in self._sums.items() if key.step >= step}
        self._buffers = {key: buffers for key, buffers in self._buffers.items() if key.step >= step}

    def _share_key(self, contribution: Contribution) -> _ShareKey:
        assert contribution.machine is not None
        return _ShareKey(self._groups.step_of(contribution.batches[0]), contribution.machine)

    def _pop_addend(self, bucket: Bucket, header: SumHeader, frames: list[memoryview]) -> Addend:
        """Removes one sum from the front of `frames` and returns it. Raises ProtocolError if the frames do not fit.

        Layout: of a table first the row numbers, uint32 [rows]; then the numbers of the sum.
        """
        planned = self._plan.parameters[header.parameter]
        first, last = bucket.rows or (0, planned.shape[0] if planned.shape else 1)
        num_rows = last - first
        is_table = header.rows >= 0
        if is_table != (planned.sparse_field is not None) or header.rows > num_rows:
            raise ProtocolError(f"{header}: {planned.name} has {num_rows} rows there")
        if len(frames) < 1 + is_table:
            raise ProtocolError(f"{header}: its numbers are missing")
        touched = None
        if is_table:
            touched = _parse_row_numbers(frames.pop(0), header, first, last)
            num_rows = header.rows
        shape = (num_rows, *planned.shape[1:]) if planned.shape else ()
        numbers = frames.pop(0)
        if numbers.nbytes != prod(shape) * torch_dtype(planned.dtype).itemsize:
            raise ProtocolError(f"{header}: {numbers.nbytes} bytes for {shape} {planned.dtype}")
        return Addend(header.leaf, _as_tensor(numbers, planned, shape), touched)


def _parse_row_numbers(frame: memoryview, header: SumHeader, first: int, last: int) -> Touched:
    """Returns the row numbers of a table's sum. Raises ProtocolError unless they ascend from `first` to below
    `last`."""
    if frame.nbytes != _ROW_NUMBER_NBYTES * header.rows:
        raise ProtocolError(f"{header}: {frame.nbytes} bytes of row numbers")
    if header.rows == 0:
        return np.empty(0, np.uint32)
    rows = _align(frame, _ROW_NUMBER_NBYTES).view(np.uint32)
    if rows[0] < first or rows[-1] >= last or np.any(rows[1:] <= rows[:-1]):
        raise ProtocolError(f"{header}: row numbers that do not ascend from {first} to below {last}")
    return rows


def _as_tensor(frame: memoryview, planned: Planned, shape: tuple[int, ...]) -> Tensor:
    """Returns the numbers of a frame as a tensor of the planned dtype."""
    dtype = torch_dtype(planned.dtype)
    if not frame.nbytes:
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(_align(frame, dtype.itemsize)).view(dtype).view(shape)


def _align(frame: memoryview, itemsize: int) -> npt.NDArray[np.uint8]:
    """Returns a frame's bytes, writable and aligned for numbers of this size. Copies them if need be, since a message
    begins anywhere."""
    raw = np.frombuffer(frame, np.uint8)
    is_usable = raw.ctypes.data % itemsize == 0 and raw.flags.writeable
    return raw if is_usable else raw.copy()
