"""Writes a network's file as a whole or not at all. Free of torch."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from loader.errors import DataError


def write_whole(path: Path, data: bytes, check: Callable[[Path], object] | None = None) -> None:
    """Writes beside the destination, syncs, renames. `check` is given the file before it gets its name, and raises if
    it must not. Raises DataError; if anything is raised, nothing is left behind."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    if path.exists() and not path.is_file() and not path.is_dir():  # a device or pipe would be replaced by a file
        raise DataError(path, "can't be written: it is not a regular file")
    try:
        try:
            with beside.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            if check is not None:
                check(beside)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)  # the new name must outlive a power cut too
        finally:
            os.close(folder)
    except OSError as error:
        raise DataError(path, f"can't be written: {error.strerror}") from None
