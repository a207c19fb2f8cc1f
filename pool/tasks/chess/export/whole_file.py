"""Writes a network's file as a whole or not at all. Free of torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from loader.errors import DataError
from loader.files import whole_file


def write_whole(path: Path, data: bytes, check: Callable[[Path], object] | None = None) -> None:
    """Calls `loader.files.whole_file.write_whole`. Raises DataError for a file that can't be written."""
    try:
        whole_file.write_whole(path, data, check)
    except OSError as error:
        raise DataError(path, f"can't be written: {error.strerror}") from None
