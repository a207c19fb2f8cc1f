"""Many rows, made fast: as text of many pieces, and as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from loader.stream.schema import BatchSchema, SparseBatch
from loader.stream.slots import allocate_slots, write_batch
from tests.loader.stream.batch_contents import digest

ACTIVE = 4  # features of a row: number d of row r is d * 10_000 + numbers[r, d]
FEATURES = ACTIVE * 10_000
Range = tuple[int, int]  # of numbers: the first, and the one behind the last


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


def digests(rows: ManyRows, schema: BatchSchema, tables: Mapping[str, Sequence[Range]], count: int) -> Iterator[str]:
    """Of the first batches of the rows in order, over and over, written by numpy; a bag of each of a table's ranges."""
    (slot,) = allocate_slots(schema, 1)
    for number in range(count):
        first = number * schema.batch_size
        batch = rows.of(np.arange(first, first + schema.batch_size) % len(rows))
        sparse: dict[str, tuple[npt.NDArray[Any], ...]] = {}
        for field in schema.sparse:
            ranges = tables[field.name]
            here = [(batch.numbers >= begin) & (batch.numbers < end) for begin, end in ranges]
            offsets = np.concatenate([[0], np.cumsum(np.concatenate([of_bag.sum(axis=1) for of_bag in here]))])
            bags = [batch.numbers[of_bag] - begin for of_bag, (begin, _) in zip(here, ranges, strict=True)]
            values = [np.concatenate([batch.values[of_bag] for of_bag in here])] if field.values else []
            sparse[field.name] = (offsets, np.concatenate(bags), *values)
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
