"""The content of a checkpoint, or of a network file in its stead, as one digest. Free of torch."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from loader.files.regular import open_regular
from pool.checkpoint.folder import locate
from pool.checkpoint.state import STATE


def start_digest(path: Path) -> str:
    """Returns the SHA-256 of a file, or of the state of a checkpoint's folder (the newest of a run's), which has the
    sums of its tensors. Raises CheckpointError, OSError."""
    file = locate(path) / STATE if path.is_dir() else path
    with os.fdopen(open_regular(file), "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
