"""int32 arithmetic of engines, in numpy's int64."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def truncating_divide(value: Ints, divisor: int) -> Ints:
    """Division that rounds toward zero, as C's; numpy's rounds down."""
    quotient: Ints = np.sign(value) * (np.abs(value) // divisor)
    return quotient


def wrapped(value: Ints) -> Ints:
    """As an int32 would hold it."""
    return value.astype(np.int32).astype(np.int64)
