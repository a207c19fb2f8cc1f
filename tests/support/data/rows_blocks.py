"""Rows of a user's code, as `data.rows.blocks` names it: the same rows in each of the forms that it may have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

from loader import Rows

ROWS = 300
FEATURES = 60
NOTHING = 5


def matrix() -> tuple[Any, Any]:
    random = np.random.default_rng(11)
    features = scipy.sparse.random(ROWS, FEATURES, 0.1, "csr", random_state=random, dtype=np.float32)
    return features, random.integers(0, 2, ROWS)


def with_weights() -> tuple[Any, dict[str, Any]]:
    features, labels = matrix()
    return features, {"label": labels, "weight": np.arange(ROWS), "qid": np.arange(ROWS) // 7}


class Parts:
    def __init__(self) -> None:
        self.matrix, self.labels = matrix()

    def num_blocks(self) -> int:
        return ROWS // 20

    def block(self, i: int) -> tuple[Any, Any]:
        return self.matrix[20 * i : 20 * i + 20], self.labels[20 * i : 20 * i + 20]


def generator() -> Iterator[Rows]:
    features, labels = matrix()
    for row in range(ROWS):
        part = features[row]
        yield Rows({"label": labels[row : row + 1]}, {"features": (part.indptr, part.indices, part.data)})


class NoBlocks:
    def num_blocks(self) -> int:
        return 0

    def block(self, i: int) -> None: ...


class Fails(Parts):
    def block(self, i: int) -> tuple[Any, Any]:
        raise KeyError(i)


class Leaves(Parts):
    def block(self, i: int) -> tuple[Any, Any]:
        raise SystemExit(i + 3)


class Short(Parts):
    def block(self, i: int) -> tuple[Any, Any]:
        return self.matrix[20 * i : 20 * i + 20], self.labels[20 * i : 20 * i + 19]


def stops() -> Iterator[Rows]:
    raise OSError(5, "gone")
    yield


class Odd(Parts):
    def block(self, i: int) -> Any:
        return [i]


def fails() -> None:
    raise RuntimeError("no data")


def beyond() -> tuple[Any, Any]:
    return scipy.sparse.csr_matrix(np.eye(3, FEATURES + 1)[:, ::-1]), np.zeros(3)


def one_label() -> tuple[Any, Any]:
    return matrix()[0], 1


def too_few_labels() -> tuple[Any, Any]:
    return matrix()[0], np.zeros(3)
