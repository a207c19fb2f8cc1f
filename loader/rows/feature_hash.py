"""Hashes categories (texts) into the feature numbers of a field, as the native reader of text files does."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.rows.block import Sparse
from loader.rows.columns import ColumnsConfig

Texts = tuple[Sequence[str | None], npt.NDArray[np.int64] | None]  # a column's texts, None if missing; offsets of lists


def hash_columns(columns: Sequence[Texts], size: int, settings: ColumnsConfig) -> Sparse:
    """Returns the features of rows, hashed from their texts in one or more columns. A feature is XXH64 of the text's
    UTF-8 modulo `size`; these numbers never change. In a column of lists row i has texts[offsets[i] : offsets[i + 1]].

    The seed of column i is `settings.seed` + i, so the same text in two columns gives two features. If two texts of a
    row give the same feature, it counts once.
    """
    found = [_places(texts, size, settings, number) for number, texts in enumerate(columns)]
    rows, features = np.divmod(np.unique(np.concatenate([places for places, _ in found])), size)
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=found[0][1]))]), features, None


class _Features(dict[str | None, int]):
    """The feature number of each text of a column, or -1 for a missing one. Each text is hashed once."""

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


def _places(texts: Texts, size: int, settings: ColumnsConfig, number: int) -> tuple[npt.NDArray[np.int64], int]:
    """Hashes the texts of column number `number`. Returns row x `size` + feature for each text that has a feature, and
    the number of rows."""
    column, offsets = texts
    known = _Features(size, settings.seed + number, settings.missing, settings.missing_category == "feature")
    features = np.fromiter(map(known.__getitem__, column), np.int64, len(column))
    rows = np.arange(len(column)) if offsets is None else np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    there = features >= 0
    return rows[there] * size + features[there], len(column) if offsets is None else len(offsets) - 1
