"""Files of such networks, whichever they are: *raw.bin and *weights.bin hold floats, all others are quantised.

Free of torch.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from loader.errors import DataError
from loader.files.regular import open_regular
from pool.tasks.perspective.files.file_bytes import parse_quantised, parse_raw, parse_weights
from pool.tasks.perspective.files.integers import Net, dequantise, quantise
from pool.tasks.perspective.files.shape import Floats, Shape
from pool.tasks.perspective.files.tensors import ExportTensor

RAW = "raw.bin"
WEIGHTS = "weights.bin"


def read_bytes(path: Path) -> bytes:
    """Raises DataError."""
    try:
        with os.fdopen(open_regular(path), "rb") as stream:
            return stream.read()
    except IsADirectoryError:
        raise DataError(path, "is a folder, not a network's file") from None
    except OSError as error:
        raise DataError(path, f"can't be read: {error.strerror}") from None


def net_of(data: bytes, shape: Shape, entries: Sequence[ExportTensor], unit: float, path: Path) -> Net:
    """What a file holds; of floats, what they would be exported as. Raises DataError, and ValueError for floats that do
    not fit."""
    if not holds_floats(path):
        return parse_quantised(data, shape, entries, unit, path)
    return quantise(floats_of(data, shape, entries, path), shape, entries, unit)


def floats_of(data: bytes, shape: Shape, entries: Sequence[ExportTensor], path: Path) -> Floats:
    """Raises DataError, and ValueError for integers that floats can't tell apart."""
    if path.name.endswith(RAW):
        return parse_raw(data, shape, entries, path)
    if path.name.endswith(WEIGHTS):
        return parse_weights(data, shape, path)
    return dequantise(parse_quantised(data, shape, entries, 1.0, path))


def holds_floats(path: Path) -> bool:
    """By its name."""
    return path.name.endswith((RAW, WEIGHTS))
