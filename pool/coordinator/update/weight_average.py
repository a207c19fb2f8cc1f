"""The running average of one member's weights (`train.average`). A member is one network of an ensemble.

The average lies in shared memory beside the two versions of the weights, so that workers can validate it. It is a
function of the versions that were added: each once, in their order, each number by itself. So neither deaths nor the
number of threads change its bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from pool import _native
from pool.checkpoint.compare_tensors import first_difference
from pool.checkpoint.store import tensor_specs
from pool.config.average import AverageConfig
from pool.crash_points import crash_point
from pool.errors import CheckpointError
from pool.kernels.threads import MEMORY_BOUND, choose_num_threads


class WeightAverage:
    """Keeps a running average of weights. `count`: how many versions are in it; before the first there is no
    average."""

    def __init__(self, config: AverageConfig, names: Sequence[str], place: Sequence[Tensor], parameters: int) -> None:
        """Makes an average without versions. `names`: of all tensors, parameters first. `place`: the memory for their
        averages. `parameters`: how many of the tensors are averaged; the rest are buffers, which are copied from the
        newest version that was added."""
        self._config = config
        self._names = names
        self._memory = place
        self._parameters = parameters
        self.count = 0

    @property
    def named_tensors(self) -> Mapping[str, Tensor]:
        """The averaged weights by name; empty before the first version of the weights is added."""
        return dict(zip(self._names, self._memory, strict=True)) if self.count else {}

    def restore(self, count: int, saved: Mapping[str, Tensor]) -> None:
        """Loads an average that `named` has returned when `count` versions were in it. Raises CheckpointError if its
        tensors don't fit."""
        self.count = count if saved else 0
        if not saved:
            return
        places = dict(zip(self._names, self._memory, strict=True))
        if difference := first_difference(tensor_specs(saved), tensor_specs(places)):
            raise CheckpointError(f"averaged weights are not the model's: {difference}")
        for name, place in places.items():
            place.copy_(saved[name])

    def add_version(self, version: int, tensors: Sequence[Tensor]) -> None:
        """Adds a complete version of the weights to the average, if the settings say that this version counts.
        `tensors`: the weights, in the order of the names."""
        if not self._config.includes(version):
            return
        self.count += 1
        if self.count == 1:
            self._copy_from(tensors)
            return
        rate = self._config.rate(self.count)
        for index, (place, tensor) in enumerate(self._pairs(tensors)):
            if index < self._parameters:
                _move_average(place, tensor, rate)
                crash_point("coordinator.mid_average")
            else:
                place.copy_(tensor)

    def fill_if_empty(self, tensors: Sequence[Tensor]) -> None:
        """Prepares the average for a validation of the weights in `tensors`. Before the first version is added, these
        weights take the place of the average."""
        if self.count == 0:
            self._copy_from(tensors)

    def _copy_from(self, tensors: Sequence[Tensor]) -> None:
        for place, tensor in self._pairs(tensors):
            place.copy_(tensor)

    def _pairs(self, tensors: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        return zip(self._memory, tensors, strict=True)


def _move_average(average: Tensor, weights: Tensor, rate: float) -> None:
    """Adds rate * (weights - average) to the average, in place."""
    if average.dtype == torch.float32 and average.device.type == "cpu":
        threads = choose_num_threads(average.numel(), MEMORY_BOUND)
        _native.add_to_average(average.view(-1), weights.view(-1), rate=rate, threads=threads)
    else:  # the native kernel adds float32 in host memory only
        average.add_((weights - average).mul_(rate))
