"""The user's cache folder: what may be lost, and costs no more than time. Free of torch."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_folder(name: str = "") -> Path | None:
    """`$XDG_CACHE_HOME/sparsepool/NAME`; None if the user has no home."""
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        return None
    return Path(base) / "sparsepool" / name


def write_whole(file: Path, data: bytes) -> None:
    """Processes that do so at the same time do not see one another; the folder is made. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as temporary:
            temporary.write(data)
        Path(name).replace(file)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
