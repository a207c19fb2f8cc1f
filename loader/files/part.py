"""Reads bytes of a data file, and checks that it is still the file that was identified."""

from __future__ import annotations

import os

from loader import _native
from loader.errors import DataChangedError
from loader.files.identity import DataFile
from loader.files.regular import open_regular


def read_part(file: DataFile, begin: int, end: int, *, may_grow: bool) -> bytes:
    """Returns all bytes from offset `begin` to offset `end`. Raises DataChangedError, OSError."""
    descriptor = open_regular(file.path)
    try:
        data = _read_fully(descriptor, begin, end - begin)
    finally:
        os.close(descriptor)
    change = _native.file_change(file.path, file.identity, may_grow)
    if change:
        raise DataChangedError(file.path, change)
    if len(data) < end - begin:
        raise DataChangedError(file.path, f"has {begin + len(data)} bytes, and had {file.size}")
    return data


def _read_fully(descriptor: int, offset: int, count: int) -> bytes:
    """Returns `count` bytes from `offset` on, fewer only at the end of the file."""
    data = b""
    while len(data) < count:
        block = os.pread(descriptor, count - len(data), offset + len(data))
        if not block:
            break
        data += block
    return data
