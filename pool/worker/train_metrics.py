"""The task's metrics of training batches: of which steps, and their numbers, which are those of each batch alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from loader.stream.schema import BatchSchema
from pool.ensemble.member import Member
from pool.metrics.layout import NOTHING, Measured
from pool.metrics.numbers import numbers_of
from pool.task.factory import metrics_of


@dataclass(frozen=True)
class TrainMetrics:
    measured: Measured = NOTHING
    every: int = 0  # steps; 0: none

    def of_batch(
        self,
        members: Sequence[Member],
        schema: BatchSchema,
        frozen: Collection[int],
        measure: Callable[[Sequence[Mapping[str, npt.NDArray[Any]]]], object],
    ) -> tuple[float, ...]:
        """Returns of each member all metrics, in the task's order; `measure` has to fill each member's arrays. Raises
        PluginError."""
        place = np.zeros(len(members) * self.measured.nbytes, np.uint8)
        arrays = self.measured.of_members(place, len(members))
        measure(arrays)
        numbers: list[float] = []
        for number, (member, own) in enumerate(zip(members, arrays, strict=True)):
            values = numbers_of(metrics_of(member.task, schema), own)
            numbers += [math.nan if number in frozen else values[name] for name, _ in self.measured.metrics]
        return tuple(numbers)
