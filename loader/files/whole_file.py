"""Files that have all of their bytes or are not there: written beside their place under a name of their own."""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path

from loader.files.regular import open_regular

_TEMPORARY = re.compile(r"\..+\.\d+\.[0-9a-f]{8}\.tmp")


def temporary(path: Path) -> Path:
    """A name beside `path` that no other file has and no other process takes."""
    return path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")


def is_temporary(name: str) -> bool:
    """Tells whether `temporary` makes such names."""
    return _TEMPORARY.fullmatch(name) is not None


def open_new(path: Path, mode: int = 0o666) -> int:
    """A descriptor of a file that this call makes. Raises OSError, of which FileExistsError."""
    return open_regular(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)


def write_whole(path: Path, data: bytes, check: Callable[[Path], object] | None = None) -> None:
    """Puts a file with these bytes, which are on the disk then, in the place of what has the name. Raises OSError that
    names `path`; if anything is raised, the old file is there and nothing else is left.

    check: gets the new file before it has the name, and raises if it must not.
    """
    if path.exists() and not path.is_file() and not path.is_dir():  # a device or pipe would be replaced by a file
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    beside = temporary(path)
    try:
        descriptor = open_new(beside)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            if check is not None:
                check(beside)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        sync_folder(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def sync_folder(folder: Path) -> None:
    """Names made or removed in it are on the disk. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
