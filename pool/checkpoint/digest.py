"""Computes one digest for what a run starts from, a checkpoint or a network file. Free of torch."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from loader.files.regular import open_regular
from pool.checkpoint.folder import find_checkpoint
from pool.checkpoint.state import STATE


def start_digest(path: Path) -> str:
    """Returns the SHA-256 of a network file, or of the state.json of a checkpoint, as hexadecimal digits.

    A checkpoint's state.json contains the checksums of its tensors, so its digest stands for the whole checkpoint. The
    folder of a run stands for its newest checkpoint. Raises CheckpointError, OSError.
    """
    file = find_checkpoint(path) / STATE if path.is_dir() else path
    with os.fdopen(open_regular(file), "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
