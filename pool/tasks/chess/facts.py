"""What the arrays of a network file hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pool.tasks.chess.network import TensorFacts
from pool.tasks.chess.rounding import Rounding


def tensor_facts(name: str, array: npt.NDArray[Any], rule: Rounding | None) -> TensorFacts:
    """Of one array that is stored by that rule, or as floats."""
    zeros = 1 - int(np.count_nonzero(array)) / array.size
    if rule is None:
        least, most = float(array.min()), float(array.max())
        return TensorFacts(name, array.shape, array.dtype.name, least, most, None, 0.0, 0, zeros)
    low, high = rule.bounds
    smallest, largest = int(array.min()), int(array.max())
    clipped = int(np.count_nonzero((array <= low) | (array >= high))) if rule.clips else 0
    return TensorFacts(
        name,
        array.shape,
        array.dtype.name,
        smallest,
        largest,
        (low, high),
        max(-smallest, largest) / max(-low, high),
        clipped,
        zeros,
    )
