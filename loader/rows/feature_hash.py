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
    UTF-8 modulo `size`. Saved models rely on these numbers. In a column of lists row i has texts[offsets[i] : offsets[i
    + 1]].

    The seed of column i is `settings.seed` + i, so the same text in two columns gives two features. If two texts of a
    row give the same feature, it counts once.
    """
    num_rows = _count_rows(columns[0])
    keys = [_hash_column(texts, size, settings, number) for number, texts in enumerate(columns)]
    rows, features = np.divmod(np.unique(np.concatenate(keys)), size)
    counts = np.bincount(rows, minlength=num_rows)
    return np.concatenate([[0], np.cumsum(counts)]), features, None


def _count_rows(texts: Texts) -> int:
    column, offsets = texts
    return len(column) if offsets is None else len(offsets) - 1


class _FeatureCache(dict[str | None, int]):
    """The feature number of each text of a column, or -1 for a missing one. Each text is hashed once."""

    def __init__(self, size: int, seed: int, missing: Collection[str], *, missing_is_feature: bool) -> None:
        self._size = size
        self._seed = seed
        feature_of_missing = self._hash_text("") if missing_is_feature else -1
        super().__init__(dict.fromkeys([*missing, None], feature_of_missing))

    def __missing__(self, text: str | None) -> int:
        assert text is not None
        feature = self[text] = self._hash_text(text)
        return feature

    def _hash_text(self, text: str) -> int:
        return _native.xxh64(text.encode(), self._seed) % self._size


def _hash_column(texts: Texts, size: int, settings: ColumnsConfig, number: int) -> npt.NDArray[np.int64]:
    """Hashes the texts of column number `number`. Returns row x `size` + feature for each text that has a feature."""
    column, offsets = texts
    cache = _FeatureCache(
        size,
        settings.seed + number,
        settings.missing,
        missing_is_feature=settings.missing_category == "feature",
    )
    features = np.fromiter(map(cache.__getitem__, column), np.int64, len(column))
    rows = np.arange(_count_rows(texts))
    if offsets is not None:
        rows = np.repeat(rows, np.diff(offsets))
    has_feature = features >= 0
    return rows[has_feature] * size + features[has_feature]
