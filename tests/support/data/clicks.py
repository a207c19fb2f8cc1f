"""A source of clicks whose true model is known: rows of three sparse fields, drawn from weights that are a function of
field and feature. Files are looked at by their names only, so that a run can have validations."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from loader.files.identity import DataFile
from loader.section import Effect, Section
from loader.stream.config import DataConfig
from loader.stream.interface import Cursor
from loader.stream.schema import BatchSchema, DenseField, SparseField
from loader.stream.slots import Slot, write_batch
from loader.stream.source import Source
from loader.stream.synthetic import SyntheticStream, hidden_weights

FIELDS = {"user": 300, "item": 200, "words": 50}
MOST_WORDS = 4


class ClickConfig(Section):
    """Keys of [data.clicks]."""

    classes: Annotated[int, Field(ge=2, le=10), Effect.FIXED] = 2
    weights: Annotated[bool, Field(), Effect.FIXED] = False
    first_label: Annotated[int, Field(ge=-1, le=1), Effect.FIXED] = 0


class ClickSource(Source):
    settings = ClickConfig

    def schema(self, config: DataConfig) -> BatchSchema:
        dense = [DenseField("label", "float32")]
        dense += [DenseField("weight", "float32")] if config.settings.weights else []
        sparse = [SparseField(name, rows, MOST_WORDS if name == "words" else 1) for name, rows in FIELDS.items()]
        return BatchSchema(config.batch_size, tuple(sparse), tuple(dense))

    def open(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> ClickStream:
        names = " ".join(file.path.name for file in files)
        return ClickStream(self.schema(config), seed + zlib.crc32(names.encode()), config.settings)

    def origin(self, config: DataConfig, files: Sequence[DataFile], seed: int, cursor: Cursor) -> dict[str, Any]:  # noqa: ARG002
        return {"batch": cursor.batch}


def draw(
    config: ClickConfig, samples: int, seed: int, batch: int
) -> tuple[dict[str, tuple[npt.NDArray[Any], npt.NDArray[Any]]], npt.NDArray[np.float64], npt.NDArray[np.float32]]:
    """Rows by field (offsets, features), true logits [samples, classes], labels [samples]."""
    random = np.random.Generator(np.random.Philox(key=[seed % 2**64, batch]))
    rows, logits = {}, np.zeros((samples, config.classes))
    for number, (name, features) in enumerate(FIELDS.items()):
        most = MOST_WORDS if name == "words" else 1
        drawn = np.sort((features * random.random((samples, most)) ** 2).astype(np.int64), axis=1)
        keep = np.arange(most) < random.integers(1, most + 1, size=samples)[:, None]
        keep[:, 1:] &= drawn[:, 1:] != drawn[:, :-1]
        rows[name] = np.concatenate([[0], np.cumsum(keep.sum(axis=1))]), drawn[keep]
        for label in range(1, config.classes):
            weights = hidden_weights(np.arange(features) + 1000 * number + 7000 * label)
            logits[:, label] += np.where(keep, 1.5 * weights[drawn], 0.0).sum(axis=1)
    labels = (logits + random.gumbel(size=logits.shape)).argmax(axis=1)
    return rows, logits, labels.astype(np.float32)


class ClickStream(SyntheticStream):
    def __init__(self, schema: BatchSchema, seed: int, config: ClickConfig) -> None:
        super().__init__(schema, seed)
        self._config = config

    def write(self, slot: Slot, number: int) -> None:
        size = self.schema.batch_size
        rows, _, labels = draw(self._config, size, self._seed, number)
        dense = {"label": labels + np.float32(self._config.first_label)}
        if self._config.weights:
            dense["weight"] = np.where(np.arange(size) % 2, np.float32(2), np.float32(0.5))
        write_batch(self.schema, slot, number, rows, dense)
