"""How many positions files hold after the filters, without reading all of them."""

from __future__ import annotations

import select
from collections.abc import Sequence

from loader.chess.fields import batch_schema
from loader.chess.readers import in_file_order, open_readers
from loader.chess.stream import ChessStream
from loader.files.identity import DataFile
from loader.formats.format import CountingReader, Reader
from loader.stream.config import DataConfig
from loader.stream.slots import allocate_slots

CHUNKS = 8  # that are decoded
SECONDS = 5.0  # that the filters' share may take to show itself


def samples_per_epoch(config: DataConfig, files: Sequence[DataFile], seed: int) -> int | None:
    """About how many; None if the filters leave too few of those that were looked at. Raises DataError."""
    readers = open_readers(config, files)
    chunks = [(reader, chunk) for reader in readers for chunk in range(reader.num_chunks)]
    step = max(1, len(chunks) // CHUNKS)
    # What is decoded in order is looked at where it begins.
    looked_at = chunks[:CHUNKS] if in_file_order(readers) else chunks[::step]
    entries = sum(_count(reader, chunk) for reader, chunk in looked_at)
    share = _share_kept(config, readers, seed)
    return None if share is None else round(entries / len(looked_at) * len(chunks) * share)


def _count(reader: Reader, chunk: int) -> int:
    return reader.count(chunk) if isinstance(reader, CountingReader) else sum(1 for _ in reader.read(chunk))


def _share_kept(config: DataConfig, readers: Sequence[Reader], seed: int) -> float | None:
    """Returns the share that the filters keep of the entries that the stream reads for its first batch."""
    small = config.model_copy(update={"window_chunks": CHUNKS, "batch_size": 16, "threads": 1})
    with ChessStream(small, batch_schema(small), readers, seed) as stream:
        stream.attach(allocate_slots(stream.schema, 1))
        stream.give(0)
        ready = select.poll()
        ready.register(stream.fileno(), select.POLLIN)
        while stream.take() is None:
            if not ready.poll(1000 * SECONDS):
                return None
        read, kept, _ = stream.progress()
    return kept / read
