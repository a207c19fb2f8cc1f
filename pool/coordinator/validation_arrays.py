"""The arrays that workers collect of a validation's batches: taken batch by batch, and made into each member's
numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pool.coordinator.scheduler.actions import Collect
from pool.metrics.layout import AVERAGE, LOSS, Measured
from pool.metrics.metric import Metric
from pool.metrics.numbers import numbers_of
from pool.metrics.validation_pass import ValidationPass
from pool.protocol.messages import MetricValue
from pool.shm.memory import Slot

Arrays = Mapping[str, npt.NDArray[Any]]


class ValidationArrays:
    """The arrays of one validation at a time; a coordinator that begins, begins with none."""

    def __init__(
        self,
        metrics: Sequence[Mapping[str, Metric]],
        measured: Measured,
        *,
        validation: ValidationPass,
        place: Callable[[int, int], Slot],
    ) -> None:
        """`metrics`: of each member's task; `place`: of a worker's arrays of a batch."""
        self._metrics = metrics
        self._measured = measured
        self._place = place
        self._validation = validation
        self._arrays = self._memory()
        self._of_averages = self._memory() if measured.averages else []
        members = len(metrics) if measured.averages else 0
        self._losses = np.empty((members, validation.batches))  # of the averaged weights

    def take(self, action: Collect) -> None:
        place, members = self._place(action.worker, action.batch), len(self._metrics)
        samples = self._validation.size(action.batch)
        self._copy(action.batch, self._measured.of_members(place, members, samples), self._arrays)
        if self._measured.averages:
            self._losses[:, action.batch], of_averages = self._measured.of_averages(place, members, samples)
            self._copy(action.batch, of_averages, self._of_averages)

    def values(self) -> tuple[MetricValue, ...]:
        """When all batches are there: of the weights, then of their averages. Raises PluginError for what is no number,
        and whatever the metrics' code raises."""
        numbers = self._numbers(self._arrays)
        if self._measured.averages:
            numbers[AVERAGE + LOSS] = tuple(map(self._validation.mean, self._losses.tolist()))
            numbers |= {AVERAGE + name: values for name, values in self._numbers(self._of_averages).items()}
        return tuple(MetricValue(name, values) for name, values in numbers.items())

    def _memory(self) -> list[Arrays]:
        return [self._measured.all_arrays(self._validation.samples if own else 0) for own in self._metrics]

    def _copy(self, batch: int, of_members: Sequence[Arrays], to: Sequence[Arrays]) -> None:
        begin = batch * self._measured.batch_size
        for own, collected in zip(to, of_members, strict=True):
            for name, array in collected.items():
                own[name][begin : begin + len(array)] = array

    def _numbers(self, collected: Sequence[Arrays]) -> dict[str, tuple[float, ...]]:
        """Returns the numbers by name, one a member."""
        numbers = [numbers_of(metrics, own) for metrics, own in zip(self._metrics, collected, strict=True)]
        return {name: tuple(own[name] for own in numbers) for name in numbers[0]}
