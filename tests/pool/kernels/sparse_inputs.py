"""Random bags of features, with their transposed form made the slow way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from loader.stream.schema import narrowest_unsigned
from pool.nn.batch import SparseInput


def input_of(bags: list[list[int]], num_features: int) -> SparseInput:
    """The five arrays of these bags, by definition."""
    number = narrowest_unsigned(num_features)
    bag_number = narrowest_unsigned(len(bags))
    columns: dict[int, list[int]] = {}
    for i, bag in enumerate(bags):
        for feature in bag:
            columns.setdefault(feature, []).append(i)
    touched = sorted(columns)
    arrays = (
        np.cumsum([0, *map(len, bags)]).astype(np.uint32),
        np.array([feature for bag in bags for feature in bag], number),
        np.array(touched, number),
        np.cumsum([0, *(len(columns[feature]) for feature in touched)]).astype(np.uint32),
        np.array([i for feature in touched for i in columns[feature]], bag_number),
    )
    return SparseInput(*map(torch.from_numpy, arrays))


def with_values(sparse: SparseInput, values: Sequence[float]) -> SparseInput:
    """The same bags, with these values of the active features, in the order of `features`."""
    rows = np.array(values, np.float32)
    order = np.argsort(sparse.features.numpy(), kind="stable")  # the order of `bags`: by feature, then by bag
    return replace(sparse, values=torch.from_numpy(rows), column_values=torch.from_numpy(rows[order]))


def random_values(sparse: SparseInput, seed: int = 0) -> SparseInput:
    """The same bags with normal values, every seventh a zero."""
    values = np.random.default_rng(seed).standard_normal(sparse.features.numel())
    values[::7] = 0.0
    return with_values(sparse, values.tolist())


def random_input(count: int, num_features: int, *, most: int = 8, seed: int = 0) -> SparseInput:
    """`count` bags of 0 to `most` different features each."""
    rng = np.random.default_rng(seed)
    most = min(most, num_features)
    sizes = rng.integers(0, most + 1, count)
    return input_of([sorted(rng.choice(num_features, size, replace=False).tolist()) for size in sizes], num_features)
