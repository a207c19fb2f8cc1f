"""A worker's weights on a device of its own: each version is copied there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pool.exchange.host.streams import Streams
from pool.exchange.plan import ALIGNMENT, Plan
from pool.exchange.plan import Tensor as PlannedTensor
from pool.exchange.tensors import carried, replace_tensors, trained, views_of

Slot = npt.NDArray[np.uint8]


class DeviceWeights(Protocol):
    """The weights of the model that they were made with, whose tensors they replace."""

    def load(self, version: int) -> None:
        """Loads as `WorkerExchange.load` does; the current stream waits for it, and for what the inward stream has
        copied."""

    def load_average(self, version: int) -> None: ...
    def forget(self) -> None: ...

    def own(self, place: slice) -> Tensor:
        """uint8: the model's own buffers at a place of the layout."""


class CopiedWeights:
    """A DeviceWeights: one asynchronous copy a version; the model's parameters are views of it."""

    def __init__(
        self, model: nn.Module, plan: Plan, streams: Streams, halves: Sequence[Slot], average: Slot | None = None
    ) -> None:
        """`model`: on the meta device; `halves`: the two versions' memory; `average`: that of their average."""
        self._streams = streams
        self._halves = [torch.from_numpy(half) for half in halves]
        self._average = None if average is None else torch.from_numpy(average)
        self._memory = torch.empty(plan.nbytes, dtype=torch.uint8, device=streams.device)
        names = [name for name, _ in trained(model)] + [name for name, _ in carried(model)]
        # `data`: or all would count as changed when one of them is
        tensors = [view.data for view in views_of(self._memory, [*plan.parameters, *plan.buffers])]
        replace_tensors(model, list(zip(names, tensors, strict=True)))
        self._buffers = spans(plan.buffers)
        self._all = spans([*plan.parameters, *plan.buffers])
        self._version = -1

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

    def own(self, place: slice) -> Tensor:
        return self._memory[place]

    def _copy(self, source: Tensor, places: Sequence[slice]) -> None:
        """These places of the weights, from the host."""
        here, inward = self._streams.here, self._streams.inward
        inward.wait_stream(here)
        inward.wait_stream(self._streams.outward)  # the buffers of the batch before may be on their way
        with inward:
            for place in places:
                self._memory[place].copy_(source[place], non_blocking=True)
        here.wait_stream(inward)


def spans(tensors: Sequence[PlannedTensor]) -> list[slice]:
    """The bytes that hold them, in as few pieces as can be."""
    return [span for span, _ in moves(tensors, tensors)]


def moves(tensors: Sequence[PlannedTensor], others: Sequence[PlannedTensor]) -> list[tuple[slice, slice]]:
    """Returns the pieces of equal sizes in two layouts, in each."""
    found: list[tuple[slice, slice]] = []
    for one, other in sorted(zip(tensors, others, strict=True), key=lambda pair: pair[0].offset):
        begin = one.offset, other.offset
        if found:
            gap, other_gap = one.offset - found[-1][0].stop, other.offset - found[-1][1].stop
            if gap == other_gap and gap < ALIGNMENT:  # nothing else fits between
                last = found.pop()
                begin = last[0].start, last[1].start
        ends = one.offset + one.nbytes, other.offset + other.nbytes
        found.append((slice(begin[0], ends[0]), slice(begin[1], ends[1])))
    return found
