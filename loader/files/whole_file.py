"""Writes files that are either complete or absent: under a temporary name in the same folder, which is replaced at the
end."""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path

from loader.files.regular import open_regular

_TEMPORARY = re.compile(r"\..+\.\d+\.[0-9a-f]{8}\.tmp")


def temporary_path(path: Path) -> Path:
    """Returns a temporary name in the folder of `path` that no other file has and no other process uses."""
    return path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")


def is_temporary(name: str) -> bool:
    """Returns whether `temporary_path` could have made this name."""
    return _TEMPORARY.fullmatch(name) is not None


def create_file(path: Path, mode: int = 0o666) -> int:
    """Creates a regular file and returns its descriptor. Raises OSError, of which FileExistsError."""
    return open_regular(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)


def write_atomically(path: Path, data: bytes, check: Callable[[Path], object] | None = None) -> None:
    """Writes a file with these bytes under a temporary name, flushes it to the disk, and then renames it to `path`.
    Raises OSError that names `path`. If anything is raised, the old file stays and no other file is left.

    check: called with the new file before it gets its name; it may raise to refuse the file.
    """
    if path.exists() and not path.is_file() and not path.is_dir():  # a device or pipe would be replaced by a file
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    temporary = temporary_path(path)
    try:
        descriptor = create_file(temporary)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            if check is not None:
                check(temporary)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def sync_folder(folder: Path) -> None:
    """Flushes the names made or removed in a folder to the disk. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
