"""Rows of a known model: clicks (or classes) whose true probabilities are known, so that what a network learns can be
judged.

Each row has `active` draws of features in each field, low categories far more often than high ones. A category becomes
a feature by hashing. The logit is a sum of hidden weights, times the features' values if they have any. Chunk i is a
function of the settings and i alone (I1). Made with numpy only.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from loader.formats.format import Place
from loader.rows.block import Array, Rows, Sparse
from loader.rows.fields import LABEL, QID, WEIGHT
from loader.rows.settings import RowsConfig

ROWS = 8192  # rows of a chunk
SKEW = 3.0  # category = size * u^SKEW for a uniform u: the first hundredth gets a fifth of the draws
SPREAD = 2.0  # standard deviation of the logits, about
BIAS = -1.0
VALIDATION = 1 << 40  # the first chunk of validations: more than an epoch has
MAX_CLASSES = 1024  # a chunk takes memory for a probability of each class and row
_ROWS_PER_QUERY = 10  # consecutive rows with the same query number
Floats = npt.NDArray[np.float64]


class SyntheticReader:
    """A `loader.formats.format.Reader` that draws rows instead of reading files."""

    name = "data.rows.synthetic"

    def __init__(self, settings: RowsConfig, *, validation: bool = False) -> None:
        """Prepares to draw the rows that the settings describe. `validation`: other rows of the same model. Raises
        ValueError for more than MOST_CLASSES classes."""
        if settings.label == "class" and settings.num_classes > MAX_CLASSES:
            raise ValueError(
                f"data.rows.num_classes: {settings.num_classes}, but rows that are made up have at most {MAX_CLASSES} "
                "classes: lower it, or name files in data.train"
            )
        self._settings = settings
        self._first_chunk = VALIDATION if validation else 0
        self.num_chunks = -(-settings.synthetic.num_rows // ROWS)

    def place(self, chunk: int) -> Place:
        return Place(Path(self.name), chunk)

    def read(self, chunk: int) -> Iterator[Rows]:
        yield draw_rows(self._settings, chunk, self._first_chunk)


def draw_rows(settings: RowsConfig, chunk: int, first: int = 0) -> Rows:
    """Draws the rows of a chunk: ROWS of them, fewer in the last chunk. `first`: added to the chunk's number to draw
    other rows."""
    num_rows = min(ROWS, settings.synthetic.num_rows - chunk * ROWS)
    random = np.random.Generator(np.random.Philox(key=[settings.synthetic.seed, first + chunk]))
    sparse = {
        name: _draw_field(random, settings, num_rows, name, number) for number, name in enumerate(settings.ranges())
    }
    cumulative = np.cumsum(true_probabilities(settings, sparse), axis=1)
    label = (random.random((num_rows, 1)) > cumulative[:, :-1]).sum(axis=1)
    dense: dict[str, Array] = {name: random.random(num_rows, np.float32) for name in settings.dense}
    dense[LABEL] = label
    dense[WEIGHT] = np.ones(num_rows, np.float32)
    dense[QID] = (chunk * ROWS + np.arange(num_rows)) // _ROWS_PER_QUERY
    return Rows(dense, sparse)


def true_probabilities(settings: RowsConfig, sparse: dict[str, Sparse]) -> Floats:
    """Returns the probability [rows, classes] of each label given the features. There are two classes unless label =
    "class"."""
    num_classes = settings.num_classes if settings.label == "class" else 2
    num_draws = sum(min(settings.synthetic.active, settings.max_active_in(name)) for name in settings.ranges())
    scale = SPREAD / np.sqrt(num_draws / 3)  # hidden weights have a variance of 1/3
    first_offsets, _, _ = next(iter(sparse.values()))
    num_rows = len(first_offsets) - 1
    logits = np.zeros((num_rows, num_classes))
    logits[:, 1:] = BIAS
    for field, (offsets, features, values) in enumerate(sparse.values()):
        row_of_feature = np.repeat(np.arange(num_rows), np.diff(offsets))
        for label in range(1, num_classes):
            weights = scale * hidden_weights(settings.synthetic.seed, field, label, features)
            if values is not None:
                weights = weights * values
            logits[:, label] += np.bincount(row_of_feature, weights, num_rows)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: Floats = odds / odds.sum(axis=1, keepdims=True)
    return probabilities


def hidden_weights(seed: int, field: int, label: int, features: Array) -> Floats:
    """Returns the model's weight in [-1, 1) of each of these features of field number `field`, for class `label`."""
    return _hash_numbers(features, (seed * 1009 + field) * 1013 + label) / 2.0**63 - 1.0


def _draw_field(random: np.random.Generator, settings: RowsConfig, num_rows: int, name: str, number: int) -> Sparse:
    """Draws the features of `num_rows` rows in field `name`, number `number`, and their values if the field has any."""
    begin, end = settings.ranges()[name]
    num_features = end - begin
    num_draws = min(settings.synthetic.active, settings.max_active_in(name))
    categories = (num_features * random.random((num_rows, num_draws)) ** SKEW).astype(np.int64)
    drawn = (_hash_numbers(categories, -1 - number) % np.uint64(num_features)).astype(np.int64)
    drawn.sort(axis=1)
    is_first = np.ones((num_rows, num_draws), bool)  # a feature that is drawn several times for a row is in it once
    is_first[:, 1:] = drawn[:, 1:] != drawn[:, :-1]
    offsets = np.concatenate([[0], np.cumsum(is_first.sum(axis=1))])
    features = drawn[is_first]
    values = 0.5 + random.random(len(features), np.float32) if settings.has_values(name) else None
    return offsets, features, values


def _hash_numbers(numbers: Array, salt: int) -> npt.NDArray[np.uint64]:
    """Returns pseudo-random uint64 numbers that are a fixed function of each number and the salt: splitmix64 (Steele,
    Lea, Flood 2014)."""
    mixed = numbers.astype(np.uint64) + np.uint64((salt * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
