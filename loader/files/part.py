"""Reads bytes of a data file, and checks that it is still the file that was identified."""

from __future__ import annotations

import os

from loader import _native
from loader.errors import DataChangedError
from loader.files.identity import DataFile
from loader.files.regular import open_regular


def read_part(file: DataFile, begin: int, end: int, *, may_grow: bool) -> bytes:
    """Returns all bytes from offset `begin` to offset `end`. Raises DataChangedError, OSError."""
    fd = open_regular(file.path)
    try:
        data = b""
        while len(data) < end - begin and (more := os.pread(fd, end - begin - len(data), begin + len(data))):
            data += more
    finally:
        os.close(fd)
    if change := _native.file_change(file.path, file.identity, may_grow):
        raise DataChangedError(file.path, change)
    if len(data) < end - begin:
        raise DataChangedError(file.path, f"has {begin + len(data)} bytes, and had {file.size}")
    return data
