"""The interface of a metric: the arrays that it needs of every validation batch, and the number that follows from all
of them.

The numbers are exact: nothing is averaged over batches. The arrays of all validation batches are put together in the
order of the batches, whoever computed them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Best = Literal["min", "max"]

DTYPES = ("bool", "uint8", "int32", "int64", "float32", "float64")


@dataclass(frozen=True)
class Column:
    """An array that each validation batch gives: one number a sample, or `width` of them."""

    dtype: str = "float32"  # one of DTYPES
    width: int = 1

    def shape(self, samples: int) -> tuple[int, ...]:
        return (samples,) if self.width == 1 else (samples, self.width)

    def nbytes(self, samples: int) -> int:
        return samples * self.width * np.dtype(self.dtype).itemsize


@runtime_checkable
class Metric(Protocol):
    """Used by the coordinator after the last batch of a validation; the run waits for it."""

    columns: Mapping[str, Column]  # what it needs, by name
    best: Best  # whether lower or higher values are better

    def value(self, arrays: Mapping[str, npt.NDArray[Any]]) -> float:
        """`arrays`: of all validation samples, [samples] or [samples, width], in the order of the batches. NaN if they
        say nothing."""
