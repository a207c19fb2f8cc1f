"""Random numbers of units: unit number i of the input has draw number i of the seed, however the input is read."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_AT_ONCE = 4  # draws of a counter


class Draws:
    """The draws one after another: Philox 4x64 with the seed as its key, counted from 0 (numpy's `Philox`)."""

    def __init__(self, seed: int, first: int = 0) -> None:
        """`first`: the number of the first draw."""
        self._generator = np.random.Philox(key=seed)
        self._generator.advance(first // _AT_ONCE)
        self.next(first % _AT_ONCE)

    def next(self, count: int) -> npt.NDArray[np.uint64]:
        """Uniform in 0 to 2^64 - 1."""
        return np.asarray(self._generator.random_raw(count), np.uint64)
