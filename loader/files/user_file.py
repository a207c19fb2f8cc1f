"""Reads files that a user has named: regular files, or pipes that have a writer, so that reading comes to an end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from loader.files.regular import open_file_or_device

_NULL_DEVICE = os.makedev(1, 3)
_READ_BYTES = 1 << 16
_MAX_BYTES = 1 << 31  # bytes; such files are texts for people, or lists of openings


def read_user_file(path: Path) -> bytes:
    """Reads all of a regular file, or of a pipe that has a writer (`<(...)`, /dev/stdin). Raises OSError, of which
    EOVERFLOW for a file of more than 2 GiB."""
    fd = open_file_or_device(path)
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if stat.S_ISFIFO(status.st_mode):
            return _read_beginning_of_pipe(fd, path) + file.read()
        if not stat.S_ISREG(status.st_mode) and status.st_rdev != _NULL_DEVICE:
            raise OSError(errno.EINVAL, "is neither a regular file nor a pipe", str(path))
        if status.st_size > _MAX_BYTES:
            reason = f"has more than {_MAX_BYTES >> 30} GiB, which no file of this kind has"
            raise OSError(errno.EOVERFLOW, reason, str(path))
        return file.read()


def _read_beginning_of_pipe(fd: int, path: Path) -> bytes:
    """Returns the first bytes of a pipe, and lets later reads wait for more, as the pipe has a writer. Raises OSError
    if it has none."""
    try:
        first = os.read(fd, _READ_BYTES)
    except BlockingIOError:  # nothing yet, but there is a writer
        first = b""
    else:
        if not first:
            raise OSError(errno.EPIPE, "is a pipe that nobody writes to", str(path))
    os.set_blocking(fd, True)
    return first
