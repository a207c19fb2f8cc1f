"""The running average of one member's weights (`train.average`).

It lies in shared memory beside the two versions, so that workers can validate it. It is a function of the versions
that were added: each once, in their order, each number by itself. So neither kills nor the number of threads change its
bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from pool import _native
from pool.checkpoint.compare_tensors import first_difference
from pool.checkpoint.store import forms_of_tensors
from pool.config.average import AverageConfig
from pool.crash_points import crash_point
from pool.errors import CheckpointError
from pool.kernels.threads import MEMORY_BOUND, worthwhile


class WeightAverage:
    """`count`: versions that are in it; before the first there is no average."""

    def __init__(self, config: AverageConfig, names: Sequence[str], place: Sequence[Tensor], parameters: int) -> None:
        """`names`: of all tensors; `place`: where their averages lie; the first `parameters` are averaged, the others,
        buffers, are those of the newest version that was added."""
        self._config = config
        self._names = names
        self._place = place
        self._parameters = parameters
        self.count = 0

    @property
    def named(self) -> Mapping[str, Tensor]:
        """The averages by name; empty before the first."""
        return dict(zip(self._names, self._place, strict=True)) if self.count else {}

    def restore(self, count: int, saved: Mapping[str, Tensor]) -> None:
        """Goes on from what `named` gave when `count` versions were in it. Raises CheckpointError."""
        self.count = count if saved else 0
        if not saved:
            return
        places = dict(zip(self._names, self._place, strict=True))
        if difference := first_difference(forms_of_tensors(saved), forms_of_tensors(places)):
            raise CheckpointError(f"averaged weights are not the model's: {difference}")
        for name, place in places.items():
            place.copy_(saved[name])

    def completed(self, version: int, tensors: Sequence[Tensor]) -> None:
        """The version is: it is added, if it is one of those that are."""
        if not self._config.adds(version):
            return
        self.count += 1
        if self.count == 1:
            self._copy(tensors)
            return
        rate = self._config.rate(self.count)
        for index, (place, tensor) in enumerate(self._pairs(tensors)):
            if index < self._parameters:
                _move(place, tensor, rate)
                crash_point("coordinator.mid_average")
            else:
                place.copy_(tensor)

    def show(self, tensors: Sequence[Tensor]) -> None:
        """This version is about to be validated: before the first that is added, its own weights stand for the
        average."""
        if self.count == 0:
            self._copy(tensors)

    def _copy(self, tensors: Sequence[Tensor]) -> None:
        for place, tensor in self._pairs(tensors):
            place.copy_(tensor)

    def _pairs(self, tensors: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        return zip(self._place, tensors, strict=True)


def _move(average: Tensor, weights: Tensor, rate: float) -> None:
    """average += rate * (weights - average)."""
    if average.dtype == torch.float32 and average.device.type == "cpu":
        threads = worthwhile(average.numel(), MEMORY_BOUND)
        _native.add_to_average(average.view(-1), weights.view(-1), rate=rate, threads=threads)
    else:  # the native kernel knows no other type
        average.add_((weights - average).mul_(rate))
