"""Gathers the arrays that workers leave for each batch of a validation, and makes each member's metrics of them. A
member is one network of an ensemble."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pool.coordinator.scheduler.actions import CollectArrays
from pool.metrics.layout import AVERAGE, LOSS, Measured
from pool.metrics.metric import Metric
from pool.metrics.numbers import compute_metrics
from pool.metrics.validation_pass import ValidationPass
from pool.protocol.messages import MetricValue
from pool.shm.memory import Slot

Arrays = Mapping[str, npt.NDArray[Any]]


class ValidationArrays:
    """Holds the arrays of one validation at a time. A new coordinator begins with none."""

    def __init__(
        self,
        metrics: Sequence[Mapping[str, Metric]],
        measured: Measured,
        *,
        validation: ValidationPass,
        place: Callable[[int, int], Slot],
    ) -> None:
        """Allocates memory for one validation. `metrics`: of each member's task, by name. `measured`: names and layout
        of the arrays. `place`: returns the memory in which a worker, by index, has left the arrays of a batch."""
        self._metrics = metrics
        self._measured = measured
        self._worker_memory = place
        self._validation = validation
        self._arrays = self._allocate()
        self._average_arrays = self._allocate() if measured.averages else []
        members = len(metrics) if measured.averages else 0
        self._average_losses = np.empty((members, validation.batches))  # with the averaged weights

    def collect(self, action: CollectArrays) -> None:
        """Copies the arrays of a validation batch from the memory of the worker that has computed it."""
        place, members = self._worker_memory(action.worker, action.batch), len(self._metrics)
        samples = self._validation.size(action.batch)
        self._copy(action.batch, self._measured.of_members(place, members, samples), self._arrays)
        if self._measured.averages:
            self._average_losses[:, action.batch], of_averages = self._measured.of_averages(place, members, samples)
            self._copy(action.batch, of_averages, self._average_arrays)

    def compute_metrics(self) -> tuple[MetricValue, ...]:
        """Computes all metrics of a validation, one value for each member: with the weights, then with the averaged
        weights if the run has them. To be called when all batches are taken.

        Raises PluginError if a metric returns no number, and whatever the metrics' code raises.
        """
        numbers = self._compute(self._arrays)
        if self._measured.averages:
            numbers[AVERAGE + LOSS] = tuple(map(self._validation.mean, self._average_losses.tolist()))
            numbers |= {AVERAGE + name: values for name, values in self._compute(self._average_arrays).items()}
        return tuple(MetricValue(name, values) for name, values in numbers.items())

    def _allocate(self) -> list[Arrays]:
        """Allocates each member's arrays, as large as a whole validation needs them."""
        return [self._measured.all_arrays(self._validation.samples if own else 0) for own in self._metrics]

    def _copy(self, batch: int, of_members: Sequence[Arrays], to: Sequence[Arrays]) -> None:
        """Copies each member's arrays of a batch into those of the whole validation."""
        begin = batch * self._measured.batch_size
        for own, collected in zip(to, of_members, strict=True):
            for name, array in collected.items():
                own[name][begin : begin + len(array)] = array

    def _compute(self, collected: Sequence[Arrays]) -> dict[str, tuple[float, ...]]:
        """Computes the metrics that the arrays hold the numbers for: by name, one value for each member (network of an
        ensemble)."""
        numbers = [compute_metrics(metrics, own) for metrics, own in zip(self._metrics, collected, strict=True)]
        return {name: tuple(own[name] for own in numbers) for name in numbers[0]}
