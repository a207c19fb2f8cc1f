"""Measures how fast this machine makes batches of positions from files, with the whole training stream and without
training.

Each batch's memory (slot) is given back as soon as it is filled. Rates are counted by the native threads from the
opening of the stream on, so they include the decoding of the first window.
"""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loader.chess.source import ChessSource
from loader.files.identity import identify
from loader.stream.config import DataConfig
from loader.stream.schema import SparseBatch
from loader.stream.slots import allocate_slots

NUM_SLOTS = 8


@dataclass(frozen=True)
class BenchResult:
    """The measured rates, in positions a second, and the settings of the measurement."""

    files: list[str]
    features: str
    batch_size: int
    threads: int
    seconds: float
    batches: int
    read: float
    kept: float  # positions that pass the filters
    batched: float
    bytes_per_position: float  # bytes in a slot that belong to the batch, without unused space


def bytes_used(batch: SparseBatch) -> int:
    """Returns the number of bytes in a slot that belong to the batch, without unused space."""
    sparse: int = sum(array.nbytes for view in batch.sparse.values() for array in view.arrays().values())
    return sparse + sum(array.nbytes for array in batch.dense.values()) + batch.bucket_offsets.nbytes


def bench(config: DataConfig, files: Sequence[Path], seed: int, seconds: float) -> BenchResult:
    """Runs the training stream for `seconds`, and at least until one batch is complete. Raises DataError for damaged
    files."""
    with ChessSource().open(config, identify(files), seed) as stream:
        slots = allocate_slots(stream.schema, NUM_SLOTS)
        began = time.monotonic()
        stream.attach(slots)
        for slot in range(NUM_SLOTS):
            stream.give(slot)
        ready = select.poll()
        ready.register(stream.fileno(), select.POLLIN)
        written = batches = 0
        while batches == 0 or time.monotonic() - began < seconds:
            if (filled := stream.take()) is None:
                ready.poll()
                continue
            written += bytes_used(SparseBatch.view(stream.schema, slots[filled.slot]))
            batches += 1
            stream.give(filled.slot)
        elapsed = time.monotonic() - began
        read, kept, built = stream.progress()
    return BenchResult(
        files=[str(file) for file in files],
        features=config.settings.features,
        batch_size=config.batch_size,
        threads=config.threads,
        seconds=elapsed,
        batches=built,
        read=read / elapsed,
        kept=kept / elapsed,
        batched=built * config.batch_size / elapsed,
        bytes_per_position=written / (batches * config.batch_size),
    )
