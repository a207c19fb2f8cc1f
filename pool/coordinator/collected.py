"""What workers have collected of a validation's batches: taken batch by batch, and made into each member's numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from loader.plugins.words import PluginError, definition_of
from pool.coordinator.books.actions import Collect
from pool.metrics.layout import Measured
from pool.metrics.metric import Metric
from pool.protocol.messages import MetricValue
from pool.shm.memory import Slot


class Collected:
    """Of one validation at a time; a coordinator that begins, begins with none."""

    def __init__(
        self,
        metrics: Sequence[Mapping[str, Metric]],
        measured: Measured,
        *,
        batches: int,
        place: Callable[[int, int], Slot],
    ) -> None:
        """`metrics`: of each member's task; `batches`: of a validation; `place`: of a worker's arrays of a batch."""
        self._metrics = metrics
        self._measured = measured
        self._place = place
        self._arrays = [measured.all_arrays(batches if own else 0) for own in metrics]

    def take(self, action: Collect) -> None:
        begin = action.batch * self._measured.batch_size
        place = self._place(action.worker, action.batch)
        of_members = self._measured.of_members(place, len(self._arrays))
        for own, collected in zip(self._arrays, of_members, strict=True):
            for name, array in collected.items():
                own[name][begin : begin + len(array)] = array

    def values(self) -> tuple[MetricValue, ...]:
        """When all batches are there. Raises PluginError for what is no number, and whatever the metrics' code
        raises."""
        numbers = [_numbers(metrics, own) for metrics, own in zip(self._metrics, self._arrays, strict=True)]
        return tuple(MetricValue(name, tuple(own[name] for own in numbers)) for name in numbers[0])


def _numbers(metrics: Mapping[str, Metric], collected: Mapping[str, npt.NDArray[Any]]) -> dict[str, float]:
    """Of one member."""
    arrays = {name: array.view() for name, array in collected.items()}
    for array in arrays.values():
        array.flags.writeable = False
    return {name: _number(name, metric, metric.value(arrays)) for name, metric in metrics.items()}


def _number(name: str, metric: Metric, value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        problem = f"{type(value).__name__}, which is no number"
    except OverflowError:
        problem = "an integer that no float can hold"
    raise PluginError(f"metric {name}: value gave {problem} ({definition_of(metric.value)})")
