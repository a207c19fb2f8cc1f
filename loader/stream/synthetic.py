"""Random sparse data without files, for tests and to try a pool without data.

data.source = "synthetic", settings in [data.synthetic]. A sample is one bag (set) of 1 .. max_active distinct features,
low numbers far more often than high ones. `target` (float32) is the sum of hidden weights of its features, each times
its value if there are values. Batch k is a function of (settings, seed, k) alone (I1). Made with numpy only.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from loader.files.identity import DataFile
from loader.section import Effect, Section
from loader.stream.config import DataConfig
from loader.stream.interface import Cursor, Filled
from loader.stream.schema import BatchSchema, DenseField, SparseField
from loader.stream.skipped_data import SkippedData
from loader.stream.slots import Slot, write_batch
from loader.stream.source import Source

FIELD = "features"
TARGET = "target"
_VALIDATION = 1 << 63  # added to the seed: more than a seed can be
SKEW = 3.0  # feature = num_features * u^SKEW for a uniform u: the first hundredth gets a fifth of the draws


class SyntheticConfig(Section):
    """Keys of [data.synthetic]."""

    num_features: Annotated[int, Field(ge=1, le=1 << 31, description="numbers of features"), Effect.FIXED] = 1000
    max_active: Annotated[int, Field(ge=1, le=1 << 16, description="features of a sample at most"), Effect.FIXED] = 8
    values: Annotated[bool, Field(description="each feature of a sample has a value from -1 to 1"), Effect.FIXED] = (
        False
    )


class SyntheticSource(Source):
    """The source "synthetic", which makes random samples and takes no files."""

    settings = SyntheticConfig

    def schema(self, config: DataConfig) -> BatchSchema:
        settings = config.settings
        if settings.max_active > settings.num_features:
            raise ValueError(
                f"data.synthetic.max_active: {settings.max_active} is more than num_features, {settings.num_features}"
            )
        return BatchSchema(
            batch_size=config.batch_size,
            sparse=(SparseField(FIELD, settings.num_features, settings.max_active, values=settings.values),),
            dense=(DenseField(TARGET, "float32"),),
        )

    def open(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> SyntheticStream:
        if files:
            raise ValueError(f"data.source: 'synthetic' reads no files, but {files[0].path} was given")
        return SyntheticStream(self.schema(config), seed)

    def open_validation(self, config: DataConfig, seed: int) -> SyntheticStream:
        return SyntheticStream(self.schema(config), seed + _VALIDATION)

    def origin(self, config: DataConfig, files: Sequence[DataFile], seed: int, cursor: Cursor) -> dict[str, Any]:  # noqa: ARG002
        return {**config.settings.model_dump(), "seed": seed, "batch": cursor.batch}


def hidden_weights(features: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Returns the weight in [-1, 1) of each feature number, from which `target` is made. It is the same for every
    seed."""
    # Fibonacci hashing: a fixed function of the number needs no table and suits any size of the space.
    mixed = (features.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    weights: npt.NDArray[np.float64] = (mixed >> np.uint64(11)).astype(np.float64) / 2.0**52 - 1.0
    return weights


def draw_rows(
    schema: BatchSchema, seed: int, batch: int
) -> tuple[tuple[npt.NDArray[Any], ...], npt.NDArray[np.float32]]:
    """Draws the samples of a batch. Returns the rows (offsets [B + 1], features [active], and values [active] if the
    field has any) and the targets [B]."""
    field = schema.sparse[0]
    random = np.random.Generator(np.random.Philox(key=[seed, batch]))
    uniform = random.random((schema.batch_size, field.max_active))
    features = np.minimum((field.num_features * uniform**SKEW).astype(np.int64), field.num_features - 1)
    features.sort(axis=1)
    num_active = random.integers(1, field.max_active + 1, size=schema.batch_size)
    is_active = np.arange(field.max_active) < num_active[:, None]
    is_active[:, 1:] &= features[:, 1:] != features[:, :-1]  # a feature occurs once in a sample
    offsets = np.concatenate([[0], np.cumsum(is_active.sum(axis=1))])
    rows: tuple[npt.NDArray[Any], ...] = (offsets, features[is_active])
    weights = hidden_weights(features)
    if field.values:
        values = (2 * random.random(features.shape) - 1).astype(np.float32)
        weights *= values
        rows = (*rows, values[is_active])
    targets = np.where(is_active, weights, 0.0).sum(axis=1).astype(np.float32)
    return rows, targets


class SyntheticStream:
    """A `Stream` of random samples without threads: `give` fills the slot at once."""

    def __init__(self, schema: BatchSchema, seed: int) -> None:
        self.schema = schema
        self._seed = seed
        self._slots: Sequence[Slot] = ()
        self._next_batch = 0  # number of the batch for the next given slot
        self._finished: deque[Filled] = deque()
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._process = os.getpid()

    def attach(self, slots: Sequence[npt.NDArray[np.uint8]]) -> None:
        self._slots = tuple(slots)

    def seek(self, cursor: Cursor) -> None:
        if cursor != Cursor(batch=cursor.batch) or cursor.batch < 0:
            raise ValueError(f"{cursor} is no cursor of synthetic data: only `batch` counts, from 0")
        self._drop_finished()
        self._next_batch = cursor.batch

    def write(self, slot: Slot, number: int) -> None:
        """Writes batch `number` into the slot's memory. Streams of other made samples override this."""
        rows, target = draw_rows(self.schema, self._seed, number)
        write_batch(self.schema, slot, number, {FIELD: rows}, {TARGET: target})

    def give(self, slot: int) -> None:
        self.write(self._slots[slot], self._next_batch)
        self.pass_over(slot)

    def pass_over(self, slot: int) -> None:
        self._check_process()
        batch = self._next_batch
        self._finished.append(Filled(slot, batch, cursor=Cursor(batch), next_cursor=Cursor(batch + 1)))
        self._next_batch += 1
        os.eventfd_write(self._event, 1)

    def take(self) -> Filled | None:
        self._check_process()
        if not self._finished:
            return None
        filled = self._finished.popleft()
        if not self._finished:
            os.eventfd_read(self._event)
        return filled

    def skipped(self) -> Sequence[SkippedData]:
        return ()

    def fileno(self) -> int:
        return self._event

    def close(self) -> None:
        if self._event >= 0:
            os.close(self._event)
            self._event = -1

    def _drop_finished(self) -> None:
        self._check_process()
        self._finished.clear()
        with suppress(BlockingIOError):  # empty if a signal's handler raised between append and write
            os.eventfd_read(self._event)

    def _check_process(self) -> None:
        """Raises ValueError in a forked process, which shares the descriptor with its parent."""
        if os.getpid() != self._process:
            raise ValueError("the stream was opened in another process: open one here")

    def __enter__(self) -> SyntheticStream:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
