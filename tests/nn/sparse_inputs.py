"""Random bags of features, with their transposed form made the slow way."""

from __future__ import annotations

import numpy as np
import torch

from loader.batch.schema import narrowest_unsigned
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


def random_input(count: int, num_features: int, *, most: int = 8, seed: int = 0) -> SparseInput:
    """`count` bags of 0 to `most` different features each."""
    rng = np.random.default_rng(seed)
    most = min(most, num_features)
    sizes = rng.integers(0, most + 1, count)
    return input_of([sorted(rng.choice(num_features, size, replace=False).tolist()) for size in sizes], num_features)
