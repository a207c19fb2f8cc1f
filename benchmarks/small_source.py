"""A source for benchmarks: random rows made once and kept as whole batches, so that reading costs a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from loader.files.identity import DataFile
from loader.section import Section
from loader.stream.config import DataConfig
from loader.stream.interface import Cursor
from loader.stream.schema import HEADER, BatchSchema, DenseField, SparseField
from loader.stream.slots import Slot, allocate_slots, write_batch
from loader.stream.source import Source
from loader.stream.synthetic import SyntheticStream

FIELD, LABEL = "features", "label"

Rows = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]  # features [batch, active], ascending; label [batch]


class SmallConfig(Section):
    num_features: int = 1_000_000
    active: int = 25  # of each row
    num_batches: int = 50  # of the data, which begin again then
    skew: float = 0.0  # features of a share are drawn as share * u^(1 + skew): 0 makes all equally frequent


class SmallSource(Source):
    settings = SmallConfig

    def schema(self, config: DataConfig) -> BatchSchema:
        settings = config.settings
        return BatchSchema(
            batch_size=config.batch_size,
            sparse=(SparseField(FIELD, settings.num_features, max_active=settings.active),),
            dense=(DenseField(LABEL, "float32"),),
        )

    def open(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> SmallStream:  # noqa: ARG002
        settings = config.settings
        drawn = [draw(settings, config.batch_size, seed, k) for k in range(settings.num_batches)]
        return SmallStream(self.schema(config), drawn)

    def origin(self, config: DataConfig, files: Sequence[DataFile], seed: int, cursor: Cursor) -> dict[str, Any]:  # noqa: ARG002
        return {"batch": cursor.batch}


def draw(settings: SmallConfig, batch_size: int, seed: int, batch: int) -> Rows:
    """One batch: features from equal shares of all numbers, one from each; labels 0 or 1."""
    random = np.random.Generator(np.random.Philox(key=[seed, batch]))
    share = settings.num_features // settings.active
    within = (share * random.random((batch_size, settings.active)) ** (1 + settings.skew)).astype(np.int64)
    features = np.minimum(within, share - 1) + share * np.arange(settings.active)
    return features, random.integers(2, size=batch_size).astype(np.float32)


class SmallStream(SyntheticStream):
    def __init__(self, schema: BatchSchema, batches: Sequence[Rows]) -> None:
        super().__init__(schema, seed=0)
        self._made = allocate_slots(schema, len(batches))
        for number, (made, (features, label)) in enumerate(zip(self._made, batches, strict=True)):
            offsets = np.arange(len(features) + 1) * features.shape[1]
            write_batch(schema, made, number, {FIELD: (offsets, features.reshape(-1))}, {LABEL: label})

    def write(self, slot: Slot, number: int) -> None:
        slot[:] = self._made[number % len(self._made)]
        header = self.schema.regions[HEADER]
        slot[header.offset :][:8].view(np.uint64)[:] = number
