"""The numbers that a task measures: their names, and where the arrays behind them lie in memory for one batch."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from loader.plugins.interface import interface_problem
from pool.metrics.metric import DTYPES, Best, Column, Metric

LOSS = "loss"  # every validation has it
PREFIX = "validation_"  # of a name, in the records of a run
TRAIN = "train_"  # the same, of a training step's own batches (`train.metrics_every`)
NET = "net_"  # the same, of what the user's command says of a net (`train.on_export`)
AVERAGE = "average_"  # begins the names of what the averaged weights are worth (`train.average`)
MOST = 16  # metrics of a task, and arrays behind them
WIDEST = 4096  # numbers a sample
NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")

_ALIGNMENT = 64  # of an array: a cache line
_PAGE = 4096


def is_measured(step: int, every: int) -> bool:
    """Tells whether the batches of a training step are measured, which those of each `every` steps are; 0: of none."""
    return every > 0 and (step + 1) % every == 0


@dataclass(frozen=True)
class Measured:
    """The metrics of a task, as the planner finds them; empty for a task without metrics."""

    batch_size: int = 0
    metrics: tuple[tuple[str, Best], ...] = ()  # in the task's order
    columns: tuple[tuple[str, Column], ...] = ()  # by name of the array
    averages: bool = False  # all of it is measured with the averaged weights, too, and their loss

    @property
    def nbytes(self) -> int:
        """The bytes of one batch's arrays, whole pages; 0 if nothing is collected."""
        return _pages(sum(_aligned(column.nbytes(self.batch_size)) for _, column in self.columns))

    def arrays(self, place: npt.NDArray[np.uint8], samples: int | None = None) -> dict[str, npt.NDArray[Any]]:
        """Views of one batch's arrays in `place`, at least `nbytes` long: [batch_size] or [batch_size, width];
        `samples`: in place of batch_size, of a batch that is smaller."""
        arrays, begin = {}, 0
        for name, column in self.columns:
            size = column.nbytes(self.batch_size)
            whole = place[begin : begin + size].view(column.dtype).reshape(column.shape(self.batch_size))
            arrays[name] = whole[:samples]
            begin += _aligned(size)
        return arrays

    def of_members(
        self, place: npt.NDArray[np.uint8], members: int, samples: int | None = None
    ) -> list[dict[str, npt.NDArray[Any]]]:
        """Views of one batch's arrays of each member, one after the other in `place`; `samples` as in `arrays`."""
        return [self.arrays(place[m * self.nbytes : (m + 1) * self.nbytes], samples) for m in range(members)]

    def of_averages(
        self, place: npt.NDArray[np.uint8], members: int, samples: int | None = None
    ) -> tuple[npt.NDArray[np.float64], list[dict[str, npt.NDArray[Any]]]]:
        """Returns the arrays of each member's averaged weights, which come behind the others; and before them the
        losses, [members]."""
        behind = place[members * self.nbytes :]
        losses, arrays = behind[: 8 * members].view(np.float64), behind[_pages(8 * members) :]
        return losses, self.of_members(arrays, members, samples)

    @property
    def collects(self) -> bool:
        """There is something to collect."""
        return bool(self.columns) or self.averages

    def collected_nbytes(self, members: int) -> int:
        """Returns the bytes of what is collected of one batch: `of_members`, and `of_averages` if there are any."""
        return members * self.nbytes + (_pages(8 * members) + members * self.nbytes if self.averages else 0)

    def all_arrays(self, samples: int) -> dict[str, npt.NDArray[Any]]:
        """New memory for so many samples."""
        return {name: np.empty(column.shape(samples), column.dtype) for name, column in self.columns}

    def best(self, name: str) -> Best:
        """Tells which values of a metric are better. Raises ValueError for a name that is not measured."""
        known: dict[str, Best] = {LOSS: "min", **dict(self.metrics)}
        if self.averages:
            known |= {AVERAGE + each: best for each, best in known.items()}
        if name not in known:
            raise ValueError(f"{reprlib.repr(name)} is not measured; allowed: {', '.join(known)}")
        return known[name]


def measured(metrics: Mapping[str, Metric], batch_size: int, *, averages: bool = False) -> Measured:
    """Measures what a task's metrics come to; `averages`: of averaged weights, too. Raises ValueError for the first
    that can't be used."""
    if not isinstance(metrics, Mapping):
        raise ValueError(f"must be a mapping of names to metrics, not {reprlib.repr(metrics)}")
    if len(metrics) > MOST:
        raise ValueError(f"{len(metrics)} metrics; at most {MOST}")
    columns: dict[str, Column] = {}
    for name, metric in metrics.items():
        if not isinstance(name, str) or not NAME.fullmatch(name) or name == LOSS:
            raise ValueError(f"{reprlib.repr(name)}: a name is of at most 32 of a-z, 0-9 and _, and not {LOSS!r}")
        if averages and name.startswith(AVERAGE):
            raise ValueError(f"{name}: with train.average.kind, what begins with {AVERAGE} is of the averaged weights")
        if problem := _problem(metric):
            raise ValueError(f"{name}: {problem}")
        for array, column in metric.columns.items():
            if columns.setdefault(array, column) != column:
                raise ValueError(f"{name}: {array} is {column}, and another metric has it as {columns[array]}")
    if len(columns) > MOST:
        raise ValueError(f"{len(columns)} arrays; at most {MOST}")
    best = tuple((name, metric.best) for name, metric in metrics.items())
    return Measured(batch_size, best, tuple(columns.items()), averages)


def _problem(metric: Metric) -> str:
    """Why it can't be used; empty if it can."""
    if problem := interface_problem(metric, Metric, "a metric"):
        return problem
    if metric.best not in ("min", "max"):
        return f"best must be 'min' or 'max', not {reprlib.repr(metric.best)}"
    if not isinstance(metric.columns, Mapping):
        return f"columns must be a mapping of names to columns, not {reprlib.repr(metric.columns)}"
    for name, column in metric.columns.items():
        if not isinstance(name, str) or not isinstance(column, Column):
            return f"columns must be a mapping of names to pool.Column, not {reprlib.repr(metric.columns)}"
        if column.dtype not in DTYPES:
            return f"{name}: dtype {reprlib.repr(column.dtype)}; allowed: {', '.join(DTYPES)}"
        if type(column.width) is not int or not 1 <= column.width <= WIDEST:
            return f"{name}: width {reprlib.repr(column.width)}; allowed: 1 to {WIDEST}"
    return ""


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def _pages(nbytes: int) -> int:
    return -(-nbytes // _PAGE) * _PAGE


NOTHING = Measured()
