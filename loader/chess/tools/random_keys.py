"""Random numbers for units: unit i of the input gets number i of the seed's sequence, in whatever pieces the input is
read."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_KEYS_PER_COUNT = 4  # numbers that the generator makes of each value of its counter


class RandomKeys:
    """A sequence of random 64-bit numbers: Philox 4x64 with the seed as its key, counted from 0 (numpy's `Philox`)."""

    def __init__(self, seed: int, first: int = 0) -> None:
        """Starts the sequence of a seed at number `first`."""
        self._generator = np.random.Philox(key=seed)
        self._generator.advance(first // _KEYS_PER_COUNT)
        self.next(first % _KEYS_PER_COUNT)

    def next(self, count: int) -> npt.NDArray[np.uint64]:
        """Returns the next `count` numbers, uniform from 0 to 2^64 - 1."""
        return np.asarray(self._generator.random_raw(count), np.uint64)
