"""From a place in the shuffled stream back to the files: which chunks a batch's entries come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loader import _native
from loader.formats.format import Reader
from loader.stream.config import DataConfig
from loader.stream.interface import Cursor
from loader.stream.native_stream import pipeline_settings


def origin(
    config: DataConfig,
    readers: Sequence[Reader],
    seed: int,
    cursor: Cursor,
    components: Sequence[_native.Component] = (),
    *,
    in_file_order: bool = False,
    apart: bool = False,
) -> dict[str, Any]:
    """Plain data: the window that the batch at `cursor` begins in, and the chunks that were shuffled in it.

    The batch has the `samples` entries from `first_entry` on in the window's shuffled order; what the window lacks
    comes from the beginning of the next one. `components`: of a mixture. `in_file_order`: chunks are not
    permuted. `apart`: the share of validations may be a part of each chunk.
    """
    chunks = [reader.place(chunk) for reader in readers for chunk in range(reader.num_chunks)]
    settings = pipeline_settings(config, seed, components)
    numbers = _native.chunks_of_window(len(chunks), settings, in_file_order, apart, cursor.epoch, cursor.window)
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
