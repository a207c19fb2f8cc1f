"""Fingerprints of files that are computed without reading all of them, for commands that continue work begun
earlier."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from loader.files.identity import DataFile
from loader.files.part import read_part
from loader.files.regular import open_regular

_END_BYTES = 1 << 16  # bytes hashed at a file's beginning and at its end
_MIB = 1 << 20
_NUM_BLOCKS = 62  # blocks hashed between a file's first MiB and its last
_BLOCK_BYTES = 16 << 10


def content_sample(file: DataFile, *, may_grow: bool) -> str:
    """Returns a hash (8 hexadecimal digits) of a file's beginning, middle and end. Raises DataChangedError, OSError."""
    last = max(0, file.size - _END_BYTES)
    digest = hashlib.sha256()
    for begin in (0, last // 2, last):
        digest.update(read_part(file, begin, min(begin + _END_BYTES, file.size), may_grow=may_grow))
    return digest.hexdigest()[:8]


def fingerprint(files: Sequence[DataFile]) -> str:
    """Returns the number of files and a hash of their names, sizes, times of the last change, beginnings and ends.
    Raises DataChangedError, OSError."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(json.dumps([str(file.path.absolute()), file.size, file.modified]).encode())
        digest.update(read_part(file, 0, min(_END_BYTES, file.size), may_grow=False))
        digest.update(read_part(file, max(0, file.size - _END_BYTES), file.size, may_grow=False))
    return f"{len(files)}, {digest.hexdigest()[:16]}"


def content_digest(path: Path, size: int) -> str:
    """Returns the SHA-256 of a file's size, its first and last MiB and 62 blocks of 16 KiB between. Hashing whole files
    of a hundred gigabytes would take minutes. Raises OSError."""
    digest = hashlib.sha256(str(size).encode())
    with os.fdopen(open_regular(path), "rb") as file:
        for offset, length in _hashed_blocks(size):
            file.seek(offset)
            digest.update(file.read(length))
    return digest.hexdigest()


def _hashed_blocks(size: int) -> Iterable[tuple[int, int]]:
    """Yields (offset, length) of the blocks of a file that `content_digest` hashes. A small file is one block."""
    if size <= 2 * _MIB + _NUM_BLOCKS * _BLOCK_BYTES:
        yield 0, size
        return
    yield 0, _MIB
    for block in range(1, _NUM_BLOCKS + 1):
        yield _MIB + (size - 2 * _MIB - _BLOCK_BYTES) * block // (_NUM_BLOCKS + 1), _BLOCK_BYTES
    yield size - _MIB, _MIB
