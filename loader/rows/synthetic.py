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
from loader.rows.fields import QID, WEIGHT
from loader.rows.settings import RowsConfig

ROWS = 8192  # rows of a chunk
SKEW = 3.0  # category = size * u^SKEW for a uniform u: the first hundredth gets a fifth of the draws
SPREAD = 2.0  # standard deviation of the logits, about
BIAS = -1.0
VALIDATION = 1 << 40  # the first chunk of validations: more than an epoch has
MAX_CLASSES = 1024  # a chunk takes memory for a probability of each class and row
_PER_QUERY = 10  # consecutive rows with the same query number
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
        self._first = VALIDATION if validation else 0
        self.num_chunks = -(-settings.synthetic.num_rows // ROWS)

    def place(self, chunk: int) -> Place:
        return Place(Path(self.name), chunk)

    def read(self, chunk: int) -> Iterator[Rows]:
        yield draw_rows(self._settings, chunk, self._first)


def draw_rows(settings: RowsConfig, chunk: int, first: int = 0) -> Rows:
    """Draws the rows of a chunk: ROWS of them, fewer in the last chunk. `first`: added to the chunk's number to draw
    other rows."""
    size = min(ROWS, settings.synthetic.num_rows - chunk * ROWS)
    random = np.random.Generator(np.random.Philox(key=[settings.synthetic.seed, first + chunk]))
    sparse = {name: _draw_field(random, settings, size, name, number) for number, name in enumerate(settings.ranges())}
    chances = true_probabilities(settings, sparse)
    label = (random.random((size, 1)) > np.cumsum(chances, axis=1)[:, :-1]).sum(axis=1)
    dense: dict[str, Array] = {name: random.random(size, np.float32) for name in settings.dense}
    dense |= {"label": label, WEIGHT: np.ones(size, np.float32), QID: (chunk * ROWS + np.arange(size)) // _PER_QUERY}
    return Rows(dense, sparse)


def true_probabilities(settings: RowsConfig, sparse: dict[str, Sparse]) -> Floats:
    """Returns the probability [rows, classes] of each label given the features. There are two classes unless label =
    "class"."""
    classes = settings.num_classes if settings.label == "class" else 2
    draws = sum(min(settings.synthetic.active, settings.most_active(name)) for name in settings.ranges())
    scale = SPREAD / np.sqrt(draws / 3)  # hidden weights have a variance of 1/3
    logits = np.full((len(next(iter(sparse.values()))[0]) - 1, classes), 0.0)
    logits[:, 1:] = BIAS
    for number, (offsets, features, values) in enumerate(sparse.values()):
        row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        for label in range(1, classes):
            weights = scale * hidden_weights(settings.synthetic.seed, number, label, features)
            logits[:, label] += np.bincount(row, weights if values is None else weights * values, len(logits))
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances: Floats = odds / odds.sum(axis=1, keepdims=True)
    return chances


def hidden_weights(seed: int, field: int, label: int, features: Array) -> Floats:
    """Returns the model's weight in [-1, 1) of each of these features of field number `field`, for class `label`."""
    return _mixed(features, (seed * 1009 + field) * 1013 + label) / 2.0**63 - 1.0


def _draw_field(random: np.random.Generator, settings: RowsConfig, size: int, name: str, number: int) -> Sparse:
    """Draws the features of `size` rows in one field, and their values if the field has any."""
    begin, end = settings.ranges()[name]
    active = min(settings.synthetic.active, settings.most_active(name))
    categories = ((end - begin) * random.random((size, active)) ** SKEW).astype(np.int64)
    features = (_mixed(categories, -1 - number) % np.uint64(end - begin)).astype(np.int64)
    features.sort(axis=1)
    keep = np.ones((size, active), bool)
    keep[:, 1:] = features[:, 1:] != features[:, :-1]
    offsets = np.concatenate([[0], np.cumsum(keep.sum(axis=1))])
    found = features[keep]
    values = 0.5 + random.random(len(found), np.float32) if settings.has_values(name) else None
    return offsets, found, values


def _mixed(numbers: Array, salt: int) -> npt.NDArray[np.uint64]:
    """Returns pseudo-random uint64 numbers that are a fixed function of each number and the salt: splitmix64 (Steele,
    Lea, Flood 2014)."""
    mixed = numbers.astype(np.uint64) + np.uint64((salt * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
