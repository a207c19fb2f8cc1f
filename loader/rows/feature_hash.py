"""Categories as features: text is hashed into the range of a field, as the native reader of text files does."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.rows.block import Sparse
from loader.rows.columns import ColumnsConfig


def hashed_field(columns: Sequence[Sequence[str | None]], size: int, settings: ColumnsConfig) -> Sparse:
    """The features of rows from their texts in one or more columns, None for missing; a feature is XXH64 of the text's
    UTF-8, whose values are fixed for ever, modulo `size`.

    The seed of column i is `settings.seed` + i, so that the same text in two columns gives two features. Of two texts
    of a row with the same feature, one counts.
    """
    found = np.stack([_features(column, size, settings, number) for number, column in enumerate(columns)], axis=1)
    found.sort(axis=1)
    keep = found >= 0
    keep[:, 1:] &= found[:, 1:] != found[:, :-1]
    return np.concatenate([[0], np.cumsum(keep.sum(axis=1))]), found[keep], None


class _Features(dict[str | None, int]):
    """The feature numbers of the texts of a column; each text is hashed once."""

    def __init__(self, size: int, seed: int, absent: Collection[str], feature_of_absent: bool) -> None:
        self._size = size
        self._seed = seed
        absence = self._of("") if feature_of_absent else -1
        super().__init__(dict.fromkeys([*absent, None], absence))

    def __missing__(self, text: str | None) -> int:
        assert text is not None
        feature = self[text] = self._of(text)
        return feature

    def _of(self, text: str) -> int:
        return _native.xxh64(text.encode(), self._seed) % self._size


def _features(column: Sequence[str | None], size: int, settings: ColumnsConfig, number: int) -> npt.NDArray[np.int64]:
    """[rows]: -1 for none."""
    known = _Features(size, settings.seed + number, settings.missing, settings.missing_category == "feature")
    return np.fromiter(map(known.__getitem__, column), np.int64, len(column))
