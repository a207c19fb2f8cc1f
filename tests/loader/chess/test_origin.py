"""From a batch back to the chunks that its entries come from."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from loader.stream.config import DataConfig
from loader.stream.data import Data, open_stream
from loader.stream.interface import Cursor
from loader.stream.schema import SparseBatch
from loader.stream.slots import allocate_slots
from loader.stream.sources import data_config
from tests.loader.stream.test_stream import KEEP_ALL, Sample, samples_in_chunk, samples_of, wait
from tests.support.binpack_file import BinpackFile

CONFIG = data_config(batch_size=100, window_chunks=4, chess={"features": "chess768", "filters": KEEP_ALL})
SEED = 9


@pytest.mark.parametrize("shuffle", [True, False])
def test_every_entry_of_a_batch_comes_from_a_chunk_of_its_origin(shuffle: bool, game_files: list[Path]) -> None:
    config = CONFIG.model_copy(update={"shuffle": shuffle})
    stream = open_stream(config, game_files, SEED)
    slots = allocate_slots(stream.schema, 1)
    stream.attach(slots)
    for _ in range(40):  # more than an epoch
        stream.give(0)
        filled = wait(stream)
        batch = SparseBatch.view(stream.schema, slots[0])
        allowed = chunk_samples(config, game_files, filled.cursor)
        if filled.next_cursor.window != filled.cursor.window:
            allowed += chunk_samples(config, game_files, filled.next_cursor)
        assert not Counter(samples_of(batch)) - allowed
    stream.close()


def chunk_samples(config: DataConfig, files: list[Path], cursor: Cursor) -> Counter[Sample]:
    """All samples of the chunks that a batch's origin names."""
    origin = Data.from_paths(config, files, SEED).origin(cursor)
    assert (origin["epoch"], origin["window"], origin["first_entry"]) == (cursor.epoch, cursor.window, cursor.entry)
    assert 1 <= len(origin["chunks"]) <= config.window_chunks
    found: Counter[Sample] = Counter()
    for chunk in origin["chunks"]:
        file = BinpackFile(chunk["file"])
        assert file.chunk(chunk["chunk"])[0] == chunk["offset"]
        found += Counter(samples_in_chunk(file, chunk["chunk"], config.settings.features))
    return found
