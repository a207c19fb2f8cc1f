"""Opens and writes files safely: only regular files, and never a part of the bytes without an error."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from loader.errors import UsageError
from loader.files.regular import NotRegularFileError, open_regular


def open_to_write(path: Path) -> int:
    """Opens a regular file for reading and writing, or creates it, and returns the descriptor. Raises UsageError for
    anything else, symbolic links included."""
    try:
        return open_regular(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
    except OSError as error:
        if isinstance(error, NotRegularFileError | IsADirectoryError) or error.errno == errno.ELOOP:
            raise UsageError(f"{path}: is not a regular file") from None
        raise


def write_at(descriptor: int, data: bytes | memoryview, offset: int, path: Path) -> None:
    """Writes all of `data` at this offset. Raises OSError that names `path`."""
    remaining = memoryview(data)
    try:
        while remaining:
            written = os.pwrite(descriptor, remaining, offset)
            remaining, offset = remaining[written:], offset + written
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
