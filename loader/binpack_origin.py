"""From a place in the shuffled stream back to the files: which chunks a batch's entries come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loader import _native
from loader.config import DataConfig
from loader.files import DataFile
from loader.stream import Cursor


def origin(config: DataConfig, files: Sequence[DataFile], seed: int, cursor: Cursor) -> dict[str, Any]:
    """Plain data: the window that the batch at `cursor` begins in, and the chunks that were shuffled in it.

    The batch has the `samples` entries from `first_entry` on in the window's shuffled order; what the window lacks
    comes from the beginning of the next one. Raises DataError for a file that can't be read.
    """
    chunks = _chunks(files, may_grow=config.may_grow)
    numbers = _native.chunks_of_window(
        len(chunks), config.window_chunks, config.shuffle, seed % 2**64, cursor.epoch, cursor.window
    )
    return {
        "epoch": cursor.epoch,
        "window": cursor.window,
        "first_entry": cursor.entry,
        "samples": config.batch_size,
        "chunks": [chunks[number] for number in numbers],
    }


def _chunks(files: Sequence[DataFile], *, may_grow: bool) -> list[dict[str, Any]]:
    """All of them in the stream's numbering: a file whose list of chunks ends early has one more, the damage."""
    found: list[dict[str, Any]] = []
    for known in files:
        file = _native.BinpackFile(known.path, known.identity, may_grow)
        places = [file.chunk(chunk)[0] for chunk in range(file.num_chunks)]
        if file.header_damage is not None:
            places.append(file.header_damage.offset)
        found += [{"file": str(known.path), "chunk": chunk, "offset": offset} for chunk, offset in enumerate(places)]
    return found
