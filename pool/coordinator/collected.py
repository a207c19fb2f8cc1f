"""What workers have collected of a validation's batches: taken batch by batch, and made into the task's numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

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
        metrics: Mapping[str, Metric],
        measured: Measured,
        *,
        batches: int,
        place: Callable[[int, int], Slot],
    ) -> None:
        """`metrics`: the task's; `batches`: of a validation; `place`: of a worker's arrays of a batch."""
        self._metrics = metrics
        self._measured = measured
        self._place = place
        self._arrays = measured.all_arrays(batches if metrics else 0)

    def take(self, action: Collect) -> None:
        begin = action.batch * self._measured.batch_size
        for name, array in self._measured.arrays(self._place(action.worker, action.batch)).items():
            self._arrays[name][begin : begin + len(array)] = array

    def values(self) -> tuple[MetricValue, ...]:
        """When all batches are there. Raises PluginError for what is no number, and whatever the metrics' code
        raises."""
        arrays = {name: array.view() for name, array in self._arrays.items()}
        for array in arrays.values():
            array.flags.writeable = False
        return tuple(
            MetricValue(name, (_number(name, metric, metric.value(arrays)),)) for name, metric in self._metrics.items()
        )


def _number(name: str, metric: Metric, value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        problem = f"{type(value).__name__}, which is no number"
    except OverflowError:
        problem = "an integer that no float can hold"
    raise PluginError(f"metric {name}: value gave {problem} ({definition_of(metric.value)})")
