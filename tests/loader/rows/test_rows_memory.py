"""What is said of the memory for windows of rows: by the size of chunks, which is the format's."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from loader.files.identity import identify
from loader.stream.data import Data
from loader.stream.sources import data_config

MIB = 1 << 20
ROWS: dict[str, Any] = {"num_features": 60}


def window(*paths: Path, chunks: int = 2) -> int:
    config = data_config(source="rows", window_chunks=chunks, rows=ROWS)
    return Data(config, identify(paths)).window_nbytes()


def test_a_window_of_text_is_as_many_pieces_as_it_has(tmp_path: Path) -> None:
    text = b"1 5:1 # " + b"x" * 91 + b"\n"
    plain, packed = tmp_path / "a.svm", tmp_path / "a.svm.gz"
    plain.write_bytes(text * 50_000)
    packed.write_bytes(gzip.compress(text * 50_000, 1))
    assert window(plain) == 2 * 2 * 4 * MIB
    assert window(plain, chunks=99) == 2 * 4 * 5_000_000
    assert window(plain, plain, chunks=99) == 4 * 4 * 5_000_000
    assert window(packed, chunks=99) == 2 * 6 * 4 * packed.stat().st_size
    assert window() == 0


def test_a_chunk_of_an_archive_or_of_a_table_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    arrays: dict[str, Any] = {"data": np.ones(200_000), "indices": np.tile([3, 5], 100_000), "y": np.zeros(100_000)}
    np.savez_compressed(path, **arrays, indptr=np.arange(0, 200_001, 2))
    assert 8 * 600_000 < window(path) / 4 < 8 * 600_000 + 2_000
    table = tmp_path / "a.parquet"
    columns = {"label": np.random.default_rng(1).random(100_000), "features": pyarrow.array([[3]] * 100_000)}
    pyarrow.parquet.write_table(pyarrow.table(columns), table, row_group_size=20_000)
    assert 0.8 < window(table) / (2 * 2 * 4 * 8 * 20_000) < 1.5
    for file, rows in ((path, 100_000), (table, 100_000)):
        assert Data.from_paths(data_config(source="rows", rows=ROWS), [file], 1).samples_per_epoch() == rows
