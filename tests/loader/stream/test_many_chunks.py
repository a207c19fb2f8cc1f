"""Files of hundreds of thousands of chunks: sparse ones, as large as Stockfish's."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from benchmarks.many_files import CHUNK, make_files
from loader.chess.readers import open_readers
from loader.errors import DataError
from loader.files.identity import identify
from loader.stream.sources import data_config

CONFIG = data_config(batch_size=100, chess={"features": "chess768"})
FILES, CHUNKS = 30, 2000


def test_python_keeps_nothing_for_each_chunk(tmp_path: Path) -> None:
    files = identify(make_files(tmp_path, FILES, CHUNKS))
    open_readers(CONFIG, files[:1])
    tracemalloc.start()
    (reader,) = open_readers(CONFIG, files)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert reader.num_chunks == FILES * CHUNKS
    assert kept < reader.num_chunks  # bytes


def test_each_chunk_has_its_place(tmp_path: Path) -> None:
    files = identify(make_files(tmp_path, 3, CHUNKS))
    (reader,) = open_readers(CONFIG, files)
    for chunk in (0, 1, CHUNKS - 1, CHUNKS, 2 * CHUNKS - 1, 2 * CHUNKS, 3 * CHUNKS - 1):
        place = reader.place(chunk)
        assert (place.file, place.chunk) == (files[chunk // CHUNKS].path, chunk % CHUNKS)
        assert place.offset == chunk % CHUNKS * (CHUNK + 8)


def test_of_several_damaged_files_the_first_is_told(tmp_path: Path) -> None:
    paths = make_files(tmp_path, 20, 3)
    for number in (7, 13):
        paths[number].unlink()
        paths[number].write_bytes(b"other")
    with pytest.raises(DataError) as caught:
        open_readers(CONFIG.model_copy(update={"format": "binpack"}), identify(paths))
    assert caught.value.file == str(paths[7])
