"""From a place in the shuffled stream back to the files: which chunks a batch's entries come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loader import _native
from loader.chess.readers import open_readers
from loader.config import DataConfig
from loader.files.identity import DataFile
from loader.stream import Cursor


def origin(config: DataConfig, files: Sequence[DataFile], seed: int, cursor: Cursor) -> dict[str, Any]:
    """Plain data: the window that the batch at `cursor` begins in, and the chunks that were shuffled in it.

    The batch has the `samples` entries from `first_entry` on in the window's shuffled order; what the window lacks
    comes from the beginning of the next one. Raises DataError for a file that can't be read.
    """
    chunks = [reader.place(chunk) for reader in open_readers(config, files) for chunk in range(reader.num_chunks)]
    numbers = _native.chunks_of_window(
        len(chunks), config.window_chunks, config.shuffle, seed % 2**64, cursor.epoch, cursor.window
    )
    return {
        "epoch": cursor.epoch,
        "window": cursor.window,
        "first_entry": cursor.entry,
        "samples": config.batch_size,
        "chunks": [
            {"file": str(place.file), "chunk": place.chunk, "offset": place.offset}
            for place in (chunks[number] for number in numbers)
        ],
    }
