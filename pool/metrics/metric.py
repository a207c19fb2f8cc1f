"""Defines the interface of a metric: the arrays that it needs of every validation batch, and the number that it
computes from all of them.

The number is exact, as nothing is averaged over batches. The arrays of all validation batches are joined in the order
of the batches, whichever workers computed them.
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
    """Describes an array that each validation batch supplies: its dtype, and the number of values for each sample
    (`width`)."""

    dtype: str = "float32"  # one of DTYPES
    width: int = 1

    def shape(self, samples: int) -> tuple[int, ...]:
        """Returns the shape of the array for so many samples."""
        return (samples,) if self.width == 1 else (samples, self.width)

    def nbytes(self, samples: int) -> int:
        return samples * self.width * np.dtype(self.dtype).itemsize


@runtime_checkable
class Metric(Protocol):
    """Computes one number from arrays of all validation samples. The coordinator calls it after the last batch of a
    validation, and the run waits for it."""

    columns: Mapping[str, Column]  # the arrays that the metric needs, by name
    best: Best  # whether lower or higher values are better

    def value(self, arrays: Mapping[str, npt.NDArray[Any]]) -> float:
        """Returns the metric's value, or NaN if the arrays do not determine one. `arrays` has those of `columns` by
        name, each [samples] or [samples, width], with all validation samples in the order of the batches."""
