"""What working on files safely takes: the right kind of file, all of a write, names that are on the disk."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from loader.errors import UsageError


def open_regular(path: Path) -> int:
    """Opens a file for reading and writing, a new one if there is none. Raises UsageError if it is no plain file."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise UsageError(f"{path}: is not a regular file") from None
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise UsageError(f"{path}: is not a regular file")


def sync_folder(folder: Path) -> None:
    """Names made or removed in it are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_at(descriptor: int, data: bytes, offset: int, path: Path) -> None:
    """All of it, at that place."""
    rest = memoryview(data)
    try:
        while rest:
            written = os.pwrite(descriptor, rest, offset)
            rest, offset = rest[written:], offset + written
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
