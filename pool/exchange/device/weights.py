"""A worker's weights on the coordinator's device: they are read where they lie."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pool.exchange.host.streams import Streams
from pool.exchange.plan import Plan
from pool.exchange.tensors import carried, replace_tensors, trained, views_of

AVERAGE = 2  # behind both versions


class MappedWeights:
    """A DeviceWeights. The parameters are views of the coordinator's memory; buffers, which forward changes, are a
    copy."""

    def __init__(self, model: nn.Module, plan: Plan, streams: Streams, halves: Sequence[Tensor]) -> None:
        """`model`: on the meta device; `halves`: the two versions, and their average, if the run has one; uint8."""
        self._streams = streams
        self._weights = [views_of(half, plan.parameters) for half in halves]
        self._buffers = [views_of(half, plan.buffers) for half in halves]
        begin = min((tensor.offset for tensor in plan.buffers), default=plan.nbytes)
        self._begin = begin
        self._own = torch.empty(plan.nbytes - begin, dtype=torch.uint8, device=halves[0].device)
        names = [name for name, _ in trained(model)] + [name for name, _ in carried(model)]
        # `data`: or all would count as changed when one of them is
        weights = [weight.data for weight in self._weights[0]]
        buffers = [
            self.own(slice(t.offset, t.offset + t.nbytes)).view(like.dtype).view(t.shape).data
            for t, like in zip(plan.buffers, self._buffers[0], strict=True)
        ]
        replace_tensors(model, list(zip(names, [*weights, *buffers], strict=True)))
        self._parameters = [parameter for _, parameter in trained(model)]
        self._carried = [tensor for _, tensor in carried(model)]

    def load(self, version: int) -> None:
        self._load(version % 2)

    def load_average(self, version: int) -> None:  # noqa: ARG002
        self._load(AVERAGE)

    def forget(self) -> None:
        """The coordinator's memory goes with it."""

    def own(self, place: slice) -> Tensor:
        return self._own[place.start - self._begin : place.stop - self._begin]

    def _load(self, place: int) -> None:
        for parameter, weight in zip(self._parameters, self._weights[place], strict=True):
            parameter.data = weight
        self._streams.here.wait_stream(self._streams.inward)  # places of a group's rows
        if self._carried:
            self._streams.here.wait_stream(self._streams.outward)  # those of the batch before may be on their way
            for tensor, buffer in zip(self._carried, self._buffers[place], strict=True):
                tensor.copy_(buffer)
