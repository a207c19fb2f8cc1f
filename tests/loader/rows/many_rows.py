"""Many rows, made fast: as text of many pieces, and as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from loader.stream.schema import BatchSchema, SparseBatch
from loader.stream.slots import allocate_slots, write_batch
from tests.loader.stream.batch_contents import digest

ACTIVE = 4  # features of a row: number d of row r is d * 10_000 + numbers[r, d]
FEATURES = ACTIVE * 10_000


@dataclass(frozen=True)
class ManyRows:
    labels: npt.NDArray[np.float32]  # [n], 0 or 1
    numbers: npt.NDArray[np.int64]  # [n, ACTIVE]
    values: npt.NDArray[np.float32]  # [n, ACTIVE]
    text: bytes

    def __len__(self) -> int:
        return len(self.labels)

    def of(self, rows: npt.NDArray[np.int64]) -> ManyRows:
        return replace(self, labels=self.labels[rows], numbers=self.numbers[rows], values=self.values[rows])


def make(count: int, seed: int = 0) -> ManyRows:
    """Lines of one length, of which half a byte in two is random: `1 0dddd:0.dddddd 1dddd:...`."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, count)
    digits = random.integers(0, 10, (count, ACTIVE, 10))
    pairs = np.empty((count, ACTIVE, 15), np.uint8)
    pairs[:] = np.frombuffer(b" 00000:0.000000", np.uint8)
    pairs[:, :, 1] += np.arange(ACTIVE, dtype=np.uint8)
    pairs[:, :, 2:6] += digits[:, :, :4].astype(np.uint8)
    pairs[:, :, 9:] += digits[:, :, 4:].astype(np.uint8)
    line = np.concatenate(
        [
            (labels + ord("0")).astype(np.uint8)[:, None],
            pairs.reshape(count, -1),
            np.full((count, 1), ord("\n"), np.uint8),
        ],
        axis=1,
    )
    numbers = np.arange(ACTIVE) * 10_000 + digits[:, :, :4] @ 10 ** np.arange(3, -1, -1)
    values = (digits[:, :, 4:] @ 10 ** np.arange(5, -1, -1) / 1e6).astype(np.float32)
    return ManyRows(labels.astype(np.float32), numbers, values, line.tobytes())


def digests(rows: ManyRows, schema: BatchSchema, ranges: dict[str, tuple[int, int]], count: int) -> Iterator[str]:
    """Of the first batches of the rows in order, over and over, written by numpy."""
    (slot,) = allocate_slots(schema, 1)
    for number in range(count):
        first = number * schema.batch_size
        batch = rows.of(np.arange(first, first + schema.batch_size) % len(rows))
        sparse: dict[str, tuple[npt.NDArray[Any], ...]] = {}
        for field in schema.sparse:
            begin, end = ranges[field.name]
            here = (batch.numbers >= begin) & (batch.numbers < end)
            offsets = np.concatenate([[0], np.cumsum(here.sum(axis=1))])
            sparse[field.name] = (offsets, batch.numbers[here] - begin, *([batch.values[here]] if field.values else []))
        write_batch(schema, slot, number, sparse, {"label": batch.labels})
        yield digest(SparseBatch.view(schema, slot))


def samples_of(batch: SparseBatch) -> list[tuple[float, ...]]:
    """Each row of a batch with one field `features`, as numbers."""
    view = batch.sparse["features"]
    assert view.values is not None
    features = view.features.reshape(-1, ACTIVE)
    return list(map(tuple, np.column_stack([batch.dense["label"], features, view.values.reshape(-1, ACTIVE)]).tolist()))


def samples_in(rows: ManyRows) -> list[tuple[float, ...]]:
    return list(map(tuple, np.column_stack([rows.labels, rows.numbers, rows.values]).tolist()))
