"""Computes a task's metrics of single training batches, in those steps that are measured."""

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
from pool.metrics.numbers import compute_metrics
from pool.task.factory import task_metrics


@dataclass(frozen=True)
class TrainMetrics:
    """Computes a task's metrics of a training batch. `measured`: the metrics. `every`: steps between those that are
    measured."""

    measured: Measured = NOTHING
    every: int = 0  # steps; 0: no step is measured

    def compute(
        self,
        members: Sequence[Member],
        schema: BatchSchema,
        frozen: Collection[int],
        fill_arrays: Callable[[Sequence[Mapping[str, npt.NDArray[Any]]]], object],
    ) -> tuple[float, ...]:
        """Returns all metrics of each member in the task's order, one member after the other; NaN for `frozen` members.

        `fill_arrays`: called to fill the arrays of each member that the metrics are made of. Raises PluginError.
        """
        memory = np.zeros(len(members) * self.measured.nbytes, np.uint8)
        arrays = self.measured.of_members(memory, len(members))
        fill_arrays(arrays)
        values: list[float] = []
        for index, (member, member_arrays) in enumerate(zip(members, arrays, strict=True)):
            by_name = compute_metrics(task_metrics(member.task, schema), member_arrays)
            values += [math.nan if index in frozen else by_name[name] for name, _ in self.measured.metrics]
        return tuple(values)
