"""Provides a worker's weights in a device's memory, and the streams on which they are copied.

Each version is copied to the worker's own memory (`CopiedWeights`), or read in the coordinator's memory on the same
device (`MappedWeights`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pool.exchange.plan import ALIGNMENT, Plan
from pool.exchange.plan import Tensor as PlannedTensor
from pool.exchange.tensors import replace_tensors, trained_parameters, untrained_tensors, view_as_tensors

Slot = npt.NDArray[np.uint8]
AVERAGE = 2  # index of the averaged weights, after both versions


@dataclass(frozen=True)
class Streams:
    """The streams of a worker on a device, besides the one that computes."""

    device: torch.device
    inward: torch.Stream  # copies weights
    outward: torch.Stream  # copies gradients
    stepping: torch.Stream | None = None  # the coordinator's, if in the same process: adds up, and steps weights

    @classmethod
    def create(cls, device: torch.device) -> Streams:
        return cls(device, torch.Stream(device=device), torch.Stream(device=device))

    @property
    def current_stream(self) -> torch.Stream:
        """Returns the current stream, which computes."""
        return torch.accelerator.current_stream(self.device)


class DeviceWeights(Protocol):
    """The weights of one model on a device. They replace the tensors of the model that they were made with."""

    def load(self, version: int) -> None:
        """Loads a version as `WorkerExchange.load` does. The current stream waits for it, and for all copies of the
        inward stream."""

    def load_average(self, version: int) -> None: ...
    def forget_version(self) -> None: ...

    def buffer_bytes(self, span: slice) -> Tensor:
        """Returns the model's own buffers at these bytes of the layout, uint8."""


class CopiedWeights:
    """Implements `DeviceWeights` by one asynchronous copy for each version. The model's parameters are views of the
    copy."""

    def __init__(
        self, model: nn.Module, plan: Plan, streams: Streams, halves: Sequence[Slot], average: Slot | None = None
    ) -> None:
        """Replaces the tensors of `model`, which is on the meta device, by views of new memory.

        `halves`: host memory of the two versions of the weights; `average`: that of the averaged weights.
        """
        self._streams = streams
        self._halves = [torch.from_numpy(half) for half in halves]
        self._average = None if average is None else torch.from_numpy(average)
        self._memory = torch.empty(plan.nbytes, dtype=torch.uint8, device=streams.device)
        tensors = [*plan.parameters, *plan.buffers]
        # `data`: or all would count as changed when one of them is
        replace_tensors(model, [view.data for view in view_as_tensors(self._memory, tensors)])
        self._buffer_spans = join_spans(plan.buffers)
        self._all_spans = join_spans(tensors)
        self._version = -1

    def load(self, version: int) -> None:
        spans = self._buffer_spans if version == self._version else self._all_spans
        self._version = version
        self._copy(self._halves[version % 2], spans)

    def load_average(self, version: int) -> None:  # noqa: ARG002
        assert self._average is not None
        self._version = -1
        self._copy(self._average, self._all_spans)

    def forget_version(self) -> None:
        self._version = -1

    def buffer_bytes(self, span: slice) -> Tensor:
        return self._memory[span]

    def _copy(self, source: Tensor, spans: Sequence[slice]) -> None:
        """Copies these bytes of the weights from the host, and lets the current stream wait for them."""
        current, inward = self._streams.current_stream, self._streams.inward
        inward.wait_stream(current)
        inward.wait_stream(self._streams.outward)  # may still be copying the buffers of the previous batch
        with inward:
            for span in spans:
                self._memory[span].copy_(source[span], non_blocking=True)
        current.wait_stream(inward)


class MappedWeights:
    """Implements `DeviceWeights` by views of the coordinator's memory. Buffers, which forward changes, are a private
    copy."""

    def __init__(self, model: nn.Module, plan: Plan, streams: Streams, halves: Sequence[Tensor]) -> None:
        """Replaces the tensors of `model`, which is on the meta device, by views of the coordinator's memory.

        `halves`: memory of the two versions, and of their average if the run has one, uint8.
        """
        self._streams = streams
        self._weights = [view_as_tensors(half, plan.parameters) for half in halves]
        self._buffers = [view_as_tensors(half, plan.buffers) for half in halves]
        self._buffers_offset = min((tensor.offset for tensor in plan.buffers), default=plan.nbytes)
        nbytes = plan.nbytes - self._buffers_offset
        self._buffer_memory = torch.empty(nbytes, dtype=torch.uint8, device=halves[0].device)
        # `data`: or all would count as changed when one of them is
        weights = [weight.data for weight in self._weights[0]]
        buffers = [
            self.buffer_bytes(slice(t.offset, t.offset + t.nbytes)).view(like.dtype).view(t.shape).data
            for t, like in zip(plan.buffers, self._buffers[0], strict=True)
        ]
        replace_tensors(model, [*weights, *buffers])
        self._parameters = [parameter for _, parameter in trained_parameters(model)]
        self._model_buffers = [tensor for _, tensor in untrained_tensors(model)]

    def load(self, version: int) -> None:
        self._load(version % 2)

    def load_average(self, version: int) -> None:  # noqa: ARG002
        self._load(AVERAGE)

    def forget_version(self) -> None:
        """Does nothing, since the coordinator's memory, and this process with it, ends with the coordinator."""

    def buffer_bytes(self, span: slice) -> Tensor:
        return self._buffer_memory[span.start - self._buffers_offset : span.stop - self._buffers_offset]

    def _load(self, index: int) -> None:
        """Points the parameters to one copy of the weights and copies its buffers. `index`: version mod 2, or
        AVERAGE."""
        streams = self._streams
        current = streams.current_stream
        if streams.stepping is not None:  # it wrote these weights, and may read the slot that is written next
            current.wait_stream(streams.stepping)
        for parameter, weight in zip(self._parameters, self._weights[index], strict=True):
            parameter.data = weight
        current.wait_stream(streams.inward)  # has copied the indices of a group's rows (RowIndices)
        if self._model_buffers:
            current.wait_stream(streams.outward)  # may still be copying the previous batch's buffers
            for tensor, buffer in zip(self._model_buffers, self._buffers[index], strict=True):
                tensor.copy_(buffer)


@dataclass(frozen=True)
class SpanPair:
    """The bytes of the same tensors in two layouts. Both spans have one size."""

    first: slice
    second: slice


def join_spans(tensors: Sequence[PlannedTensor]) -> list[slice]:
    """Returns the byte ranges that hold these tensors, as few as possible."""
    return [pair.first for pair in pair_spans(tensors, tensors)]


def pair_spans(first: Sequence[PlannedTensor], second: Sequence[PlannedTensor]) -> list[SpanPair]:
    """Pairs the byte ranges of the same tensors in two layouts, joined to as few pairs as possible."""
    pairs: list[SpanPair] = []
    for one, other in sorted(zip(first, second, strict=True), key=lambda tensors: tensors[0].offset):
        begin, other_begin = one.offset, other.offset
        if pairs:
            last = pairs[-1]
            gap, other_gap = begin - last.first.stop, other_begin - last.second.stop
            if gap == other_gap and gap < ALIGNMENT:  # nothing else fits between
                pairs.pop()
                begin, other_begin = last.first.start, last.second.start
        span = slice(begin, one.offset + one.nbytes)
        pairs.append(SpanPair(span, slice(other_begin, other.offset + other.nbytes)))
    return pairs
