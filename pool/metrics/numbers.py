"""Computes the values of a task's metrics from the collected arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from loader.plugins.error_text import PluginError, definition_location
from pool.metrics.metric import Metric


def compute_metrics(metrics: Mapping[str, Metric], collected: Mapping[str, npt.NDArray[Any]]) -> dict[str, float]:
    """Returns the value of each metric by name. Metrics get read-only views of the arrays. Raises PluginError if a
    value is no number, and whatever the metrics' code raises."""
    arrays = {name: array.view() for name, array in collected.items()}
    for array in arrays.values():
        array.flags.writeable = False
    return {name: _to_float(name, metric, metric.value(arrays)) for name, metric in metrics.items()}


def _to_float(name: str, metric: Metric, value: object) -> float:
    """Converts a metric's value to float. Raises PluginError if it is no number."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        problem = f"{type(value).__name__}, which is no number"
    except OverflowError:
        problem = "an integer that no float can hold"
    raise PluginError(f"metric {name}: value gave {problem} ({definition_location(metric.value)})")
