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
_BYTES_PER_TEXT_BYTE = 4  # of memory, about the most
_NUM_WINDOWS = 2  # windows in memory: one is read while the next is decoded
_SAMPLED_FILES = 8  # largest files, of which memory is estimated


@runtime_checkable
class SizedFormat(Protocol):
    """A format of rows that estimates its own memory, since its chunks are not about 1 MiB of text."""

    def rows_nbytes(self, file: DataFile) -> tuple[int, int]:
        """Estimates the bytes of memory for the rows of the file's largest chunk, and for all its rows. Raises
        DataError."""


def window_nbytes(config: DataConfig, files: Sequence[DataFile]) -> int:
    """Estimates the bytes of memory for the windows (chunks shuffled together) of a stream; no window holds more than
    the files have. Raises DataError."""
    sampled = sorted(files, key=lambda file: file.size)[-_SAMPLED_FILES:]
    sampled_size = sum(file.size for file in sampled)
    if not sampled_size:
        return 0
    estimates = [_rows_nbytes(config, file) for file in sampled]
    max_chunk_nbytes = max(chunk_nbytes for chunk_nbytes, _ in estimates)
    sampled_nbytes = sum(file_nbytes for _, file_nbytes in estimates)
    total_nbytes = sampled_nbytes * sum(file.size for file in files) // sampled_size
    return _NUM_WINDOWS * min(config.window_chunks * max_chunk_nbytes, total_nbytes)


def _rows_nbytes(config: DataConfig, file: DataFile) -> tuple[int, int]:
    """Estimates the bytes of memory for the rows of a file's largest chunk, and for all its rows."""
    file_format = resolve_file_format(config, file, FAMILY)
    if isinstance(file_format, SizedFormat):
        return file_format.rows_nbytes(file)
    return _BYTES_PER_TEXT_BYTE * min(file.size, _MIB), _BYTES_PER_TEXT_BYTE * file.size


def text_nbytes(file: DataFile) -> tuple[int, int]:
    """Estimates the bytes of memory for the rows of the largest chunk of a text file, compressed or not, and for all
    its rows."""
    is_compressed = _native.LineFile(file.path, file.identity, may_grow=True).is_packed
    chunk_size = _MIB // 4 if is_compressed else _MIB
    expansion = 6 if is_compressed else 1  # bytes of text for a byte of the file
    nbytes_per_byte = _BYTES_PER_TEXT_BYTE * expansion
    return nbytes_per_byte * min(file.size, chunk_size), nbytes_per_byte * file.size
