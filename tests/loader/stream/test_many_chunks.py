"""Files of hundreds of thousands of chunks: sparse ones, as large as Stockfish's."""

from __future__ import annotations

import os
import struct
import tracemalloc
from pathlib import Path

import pytest

from loader.chess.readers import open_readers
from loader.errors import DataError
from loader.files.identity import identify
from loader.stream.sources import data_config

CONFIG = data_config(batch_size=100, chess={"features": "chess768"})
FILES, CHUNKS = 30, 2000
CHUNK = 1 << 20  # bytes of a payload


def make_files(folder: Path, count: int, chunks: int) -> list[Path]:
    """Writes a sparse binpack file of chunks without entries, and gives it so many names."""
    first = folder / "0.binpack"
    with first.open("wb") as file:
        for chunk in range(chunks):
            file.seek(chunk * (CHUNK + 8))
            file.write(b"BINP" + struct.pack("<I", CHUNK))
        file.truncate(chunks * (CHUNK + 8))
    others = [folder / f"{number}.binpack" for number in range(1, count)]
    for other in others:
        os.link(first, other)
    return [first, *others]


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
