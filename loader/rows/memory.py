"""Estimates the memory for the rows that a stream holds, from the largest files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from loader import _native
from loader.files.identity import DataFile
from loader.formats.readers import resolve_file_format
from loader.rows.readers import FAMILY
from loader.stream.config import DataConfig

_MIB = 1 << 20
_TEXT = 4  # about the most bytes of memory for a byte of text
_WINDOWS = 2  # windows in memory: one is read while the next is decoded
_LOOKED_AT = 8  # largest files, of which memory is estimated


@runtime_checkable
class SizedFormat(Protocol):
    """A format of rows that estimates its own memory, since its chunks are not about 1 MiB of text."""

    def rows_nbytes(self, file: DataFile) -> tuple[int, int]:
        """Estimates the bytes of memory for the rows of the file's largest chunk, and for all its rows. Raises
        DataError."""


def window_nbytes(config: DataConfig, files: Sequence[DataFile]) -> int:
    """Estimates the bytes of memory for the windows (chunks shuffled together) of a stream; no window holds more than
    the files have. Raises DataError."""
    known = sorted(files, key=lambda file: file.size)[-_LOOKED_AT:]
    looks = [_rows_nbytes(config, file) for file in known]
    size = sum(file.size for file in known)
    if not size:
        return 0
    largest, there = max(largest for largest, _ in looks), sum(there for _, there in looks)
    return _WINDOWS * min(config.window_chunks * largest, there * sum(file.size for file in files) // size)


def _rows_nbytes(config: DataConfig, file: DataFile) -> tuple[int, int]:
    """Estimates the bytes of memory for the rows of a file's largest chunk, and for all its rows."""
    found = resolve_file_format(config, file, FAMILY)
    if isinstance(found, SizedFormat):
        return found.rows_nbytes(file)
    return _TEXT * min(file.size, _MIB), _TEXT * file.size


def text_nbytes(file: DataFile) -> tuple[int, int]:
    """Estimates the bytes of memory for the rows of the largest chunk of a text file, compressed or not, and for all
    its rows."""
    packed = _native.LineFile(file.path, file.identity, may_grow=True).is_packed
    chunk, unpacked = (_MIB // 4, 6) if packed else (_MIB, 1)
    return _TEXT * unpacked * min(file.size, chunk), _TEXT * unpacked * file.size
