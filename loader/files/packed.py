"""Compressed data files, by their first bytes."""

from __future__ import annotations

import os
from collections.abc import Sequence

from loader.files.identity import DataFile
from loader.files.regular import open_regular

_HEADS = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")  # of gzip (RFC 1952) and of zstd (RFC 8878)


def is_packed(file: DataFile) -> bool:
    """A file that can't be read is none: whoever opens it says why."""
    try:
        fd = open_regular(file.path)
    except OSError:
        return False
    with os.fdopen(fd, "rb") as opened:
        return opened.read(4).startswith(_HEADS)


def packed_notes(files: Sequence[DataFile], noun: str) -> Sequence[str]:
    """What a user should know of them before a run; nothing if none is compressed. `noun`: what files have."""
    packed = sum(file.size for file in files if is_packed(file))
    if not packed:
        return ()
    return (
        f"{packed / 1e6:,.1f} MB of files are compressed: {noun} are read in the order of the files, and shuffled "
        "within data.window_chunks only; when the feeder is restarted it decodes a file again up to its place",
    )
