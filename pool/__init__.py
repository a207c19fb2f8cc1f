"""Trains networks with a sparse first layer on every GPU of a workstation.

The names below are the ones that code from outside (a task, a source, a script) may import, from here: they keep their
names and meaning, whatever module they lie in. Nothing is imported before it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pool.metrics.classification import AUC as AUC
    from pool.metrics.classification import Accuracy as Accuracy
    from pool.metrics.classification import GroupedAUC as GroupedAUC
    from pool.metrics.classification import LogLoss as LogLoss
    from pool.metrics.metric import Column as Column
    from pool.metrics.metric import Metric as Metric
    from pool.nn.batch import SparseInput as SparseInput
    from pool.nn.batch import TensorBatch as TensorBatch
    from pool.nn.sparse_linear import SparseLinear as SparseLinear
    from pool.task.task import MeasuredTask as MeasuredTask
    from pool.task.task import Progress as Progress
    from pool.task.task import Task as Task
    from pool.telemetry.sinks import Sink as Sink

_HOMES = {
    "AUC": "pool.metrics.classification",
    "Accuracy": "pool.metrics.classification",
    "Column": "pool.metrics.metric",
    "GroupedAUC": "pool.metrics.classification",
    "LogLoss": "pool.metrics.classification",
    "MeasuredTask": "pool.task.task",
    "Metric": "pool.metrics.metric",
    "Progress": "pool.task.task",
    "Sink": "pool.telemetry.sinks",
    "SparseInput": "pool.nn.batch",
    "SparseLinear": "pool.nn.sparse_linear",
    "Task": "pool.task.task",
    "TensorBatch": "pool.nn.batch",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
