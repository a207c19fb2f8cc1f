"""Stores files in the user's cache folder. Losing them costs only time. Free of torch."""

from __future__ import annotations

import os
from pathlib import Path

from loader.files.whole_file import write_atomically


def cache_folder(name: str = "") -> Path | None:
    """Returns the folder `$XDG_CACHE_HOME/sparsepool/NAME`, or None if the user has no home."""
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        return None
    return Path(base) / "sparsepool" / name


def write_cached(file: Path, data: bytes) -> None:
    """Writes a file whole or not at all, and makes its folder. Several processes may do so at the same time. Raises
    OSError."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(file, data)
