"""Opens and reads regular files, and refuses anything else at once, since opening a pipe would wait for its other
end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


class NotRegularFileError(OSError):
    """Raised if a path is neither a regular file nor a folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EINVAL, "is not a regular file", str(path))


def open_file_or_device(path: Path, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """Opens anything but a folder, without waiting, and returns the descriptor. `mode`: permissions of a file that
    `flags` create.

    Raises OSError: IsADirectoryError for a folder, NotRegularFileError for a socket.
    """
    try:
        fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a pipe without a reader that is opened to write
            raise NotRegularFileError(path) from None
        raise
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        os.close(fd)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return fd


def open_regular(path: Path, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """Opens a regular file and returns the descriptor. Raises NotRegularFileError for anything else."""
    fd = open_file_or_device(path, flags, mode)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise NotRegularFileError(path)


def read_regular(path: Path, largest: int) -> bytes:
    """Reads all of a regular file of at most `largest` bytes. Raises OSError. A larger file is EOVERFLOW, and nothing
    of it is read, since its size may exceed the machine's memory."""
    with os.fdopen(open_regular(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > largest:
            raise OSError(errno.EOVERFLOW, f"has {size:,} bytes; at most {largest:,} are expected", str(path))
        return file.read()
