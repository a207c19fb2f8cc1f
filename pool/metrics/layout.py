"""Describes the metrics that a task measures: their names, and where the arrays that they need lie in memory for one
batch. A member, here, is one network of an ensemble."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from loader.plugins.interface import find_interface_problem
from pool.metrics.metric import DTYPES, Best, Column, Metric

LOSS = "loss"  # name of the loss, which every validation measures
PREFIX = "validation_"  # prefix of a validation's metrics in the records of a run
TRAIN = "train_"  # prefix of metrics of a training step's own batches (`train.metrics_every`)
NET = "net_"  # prefix of numbers that the user's command gives for a net (`train.on_export`)
AVERAGE = "average_"  # prefix of metrics of the averaged weights (`train.average`)
MOST = 16  # largest number of metrics of a task, and of their arrays
WIDEST = 4096  # largest number of values for each sample in an array
NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")

_ALIGNMENT = 64  # bytes, of each array: a cache line
_PAGE = 4096


def is_measured(step: int, every: int) -> bool:
    """Returns whether the metrics of a training step's own batches are measured: at the last of each `every` steps, or
    never if `every` is 0."""
    return every > 0 and (step + 1) % every == 0


@dataclass(frozen=True)
class Measured:
    """Describes the metrics of a task and the arrays that they need, for one batch size. It is empty for a task without
    metrics."""

    batch_size: int = 0
    metrics: tuple[tuple[str, Best], ...] = ()  # name, and whether lower or higher is better, in the task's order
    columns: tuple[tuple[str, Column], ...] = ()  # name and description of each array
    averages: bool = False  # whether metrics and loss are measured with the averaged weights, too

    @property
    def nbytes(self) -> int:
        """The bytes of one batch's arrays for one member, rounded up to whole pages; 0 if there are no arrays."""
        return _round_up_to_page(sum(_round_up_to_line(column.nbytes(self.batch_size)) for _, column in self.columns))

    def arrays(self, place: npt.NDArray[np.uint8], samples: int | None = None) -> dict[str, npt.NDArray[Any]]:
        """Returns views of one batch's arrays in `place`, by name, each [batch_size] or [batch_size, width]. `place`
        has at least `nbytes` bytes. `samples` is the number of samples of a batch that is smaller than batch_size."""
        arrays, begin = {}, 0
        for name, column in self.columns:
            size = column.nbytes(self.batch_size)
            whole = place[begin : begin + size].view(column.dtype).reshape(column.shape(self.batch_size))
            arrays[name] = whole[:samples]
            begin += _round_up_to_line(size)
        return arrays

    def of_members(
        self, place: npt.NDArray[np.uint8], members: int, samples: int | None = None
    ) -> list[dict[str, npt.NDArray[Any]]]:
        """Returns views of one batch's arrays for each member. The members' arrays lie one after the other in `place`.
        `samples` is as in `arrays`."""
        return [self.arrays(place[m * self.nbytes : (m + 1) * self.nbytes], samples) for m in range(members)]

    def of_averages(
        self, place: npt.NDArray[np.uint8], members: int, samples: int | None = None
    ) -> tuple[npt.NDArray[np.float64], list[dict[str, npt.NDArray[Any]]]]:
        """Returns views of the losses [members] and of each member's arrays, both computed with the averaged weights.
        In `place` they follow the arrays of `of_members`, the losses first."""
        behind = place[members * self.nbytes :]
        losses, arrays = behind[: 8 * members].view(np.float64), behind[_round_up_to_page(8 * members) :]
        return losses, self.of_members(arrays, members, samples)

    @property
    def collects(self) -> bool:
        """Whether batches supply anything to collect: arrays, or losses of averaged weights."""
        return bool(self.columns) or self.averages

    def collected_nbytes(self, members: int) -> int:
        """Returns the bytes that are collected of one batch: those of `of_members` and, with averaged weights, of
        `of_averages`."""
        return members * self.nbytes + (_round_up_to_page(8 * members) + members * self.nbytes if self.averages else 0)

    def all_arrays(self, samples: int) -> dict[str, npt.NDArray[Any]]:
        """Allocates the arrays by name, uninitialised, for so many samples."""
        return {name: np.empty(column.shape(samples), column.dtype) for name, column in self.columns}

    def best(self, name: str) -> Best:
        """Returns "min" or "max": which values of a metric are better. Raises ValueError for a name that is not
        measured."""
        known: dict[str, Best] = {LOSS: "min", **dict(self.metrics)}
        if self.averages:
            known |= {AVERAGE + each: best for each, best in known.items()}
        if name not in known:
            raise ValueError(f"{reprlib.repr(name)} is not measured; allowed: {', '.join(known)}")
        return known[name]


def create_layout(metrics: Mapping[str, Metric], batch_size: int, *, averages: bool = False) -> Measured:
    """Checks a task's metrics and returns their layout for a batch size. With `averages` they are measured with the
    averaged weights, too. Raises ValueError for the first metric that can't be used."""
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
        if problem := _find_problem(metric):
            raise ValueError(f"{name}: {problem}")
        for array, column in metric.columns.items():
            if columns.setdefault(array, column) != column:
                raise ValueError(f"{name}: {array} is {column}, and another metric has it as {columns[array]}")
    if len(columns) > MOST:
        raise ValueError(f"{len(columns)} arrays; at most {MOST}")
    best = tuple((name, metric.best) for name, metric in metrics.items())
    return Measured(batch_size, best, tuple(columns.items()), averages)


def _find_problem(metric: Metric) -> str:
    """Returns the reason why a metric can't be used, or an empty text if it can."""
    if problem := find_interface_problem(metric, Metric, "a metric"):
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


def _round_up_to_line(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def _round_up_to_page(nbytes: int) -> int:
    return -(-nbytes // _PAGE) * _PAGE


NOTHING = Measured()
