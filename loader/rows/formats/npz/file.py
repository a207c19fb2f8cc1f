"""Reads npz files without settings: any feature numbers are allowed, labels are real."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from loader import _native
from loader.errors import DataError
from loader.files.identity import identify
from loader.rows.block import Rows
from loader.rows.chunks import read_native_chunk
from loader.rows.fields import row_shape
from loader.rows.formats.npz.reader import NpzReader
from loader.rows.python_reader import PythonBlocks
from loader.rows.settings import MAX_ACTIVE, MAX_FEATURES, RowsConfig


def read_chunks(path: Path) -> Iterator[tuple[Rows, DataError | None]]:
    """Yields the file's rows, with the fault that follows them or None. Raises DataError."""
    settings = RowsConfig(num_features=MAX_FEATURES, max_active=MAX_ACTIVE)
    shape = row_shape(settings)
    reader = NpzReader(identify([path]), settings, may_grow=False)
    yield read_native_chunk(_native.PythonRowReader(PythonBlocks(reader, shape)), 0, shape)
