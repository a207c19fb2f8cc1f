"""How fast batches are made of files on this machine: the whole stream, without training.

Slots are given back as soon as they are filled. Counts are of the native threads since the stream was opened, so the
decoding before the first window is included.
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
    """Rates are positions a second."""

    files: list[str]
    features: str
    batch_size: int
    threads: int
    seconds: float
    batches: int
    read: float
    kept: float  # what the filters let pass
    batched: float
    bytes_per_position: float  # written to a slot; unused room is not counted


def bytes_used(batch: SparseBatch) -> int:
    """Bytes of a slot that mean something."""
    sparse: int = sum(array.nbytes for view in batch.sparse.values() for array in view.arrays().values())
    return sparse + sum(array.nbytes for array in batch.dense.values()) + batch.bucket_offsets.nbytes


def bench(config: DataConfig, files: Sequence[Path], seed: int, seconds: float) -> BenchResult:
    """Runs the stream for so many seconds, and for one batch at least. Raises DataError for damaged files."""
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
