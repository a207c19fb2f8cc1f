"""Compressed data files, by their first bytes."""

from __future__ import annotations

import os
from collections.abc import Sequence

from loader.files.identity import DataFile
from loader.files.regular import open_regular

_READ = {b"\x1f\x8b": "gzip -dc", b"\x28\xb5\x2f\xfd": "zstd -dc"}  # by first bytes (RFC 1952, RFC 8878)
_OTHERS = {b"BZh": "bzip2 -dc", b"\xfd7zXZ\x00": "xz -dc", b"PK\x03\x04": "unzip -p"}


def decompressor(head: bytes) -> str | None:
    """The command that decompresses what begins so; None of what is not compressed."""
    return next((program for magic, program in (_READ | _OTHERS).items() if head.startswith(magic)), None)


def is_packed(file: DataFile) -> bool:
    """A file that can't be read is none: whoever opens it says why."""
    try:
        fd = open_regular(file.path)
    except OSError:
        return False
    with os.fdopen(fd, "rb") as opened:
        return opened.read(4).startswith(tuple(_READ))


def packed_notes(files: Sequence[DataFile], noun: str) -> Sequence[str]:
    """What a user should know of them before a run; nothing if none is compressed. `noun`: what files have."""
    packed = sum(file.size for file in files if is_packed(file))
    if not packed:
        return ()
    return (
        f"{packed / 1e6:,.1f} MB of files are compressed: {noun} are read in the order of the files, and shuffled "
        "within data.window_chunks only; when the feeder is restarted it decodes a file again up to its place",
    )
