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

_ENDS = 1 << 16  # bytes hashed at a file's beginning and at its end
_MIB = 1 << 20
_PLACES = 62  # number of blocks hashed between a file's first MiB and its last
_PIECE = 16 << 10


def content_sample(file: DataFile, *, may_grow: bool) -> str:
    """Returns a hash (8 hexadecimal digits) of a file's beginning, middle and end. Raises DataChangedError, OSError."""
    whole = hashlib.sha256()
    for begin in (0, max(0, file.size - _ENDS) // 2, max(0, file.size - _ENDS)):
        whole.update(read_part(file, begin, min(begin + _ENDS, file.size), may_grow=may_grow))
    return whole.hexdigest()[:8]


def fingerprint(files: Sequence[DataFile]) -> str:
    """Returns the number of files and a hash of their names, sizes, times of the last change, beginnings and ends.
    Raises DataChangedError, OSError."""
    whole = hashlib.sha256()
    for file in files:
        whole.update(json.dumps([str(file.path.absolute()), file.size, file.modified]).encode())
        whole.update(read_part(file, 0, min(_ENDS, file.size), may_grow=False))
        whole.update(read_part(file, max(0, file.size - _ENDS), file.size, may_grow=False))
    return f"{len(files)}, {whole.hexdigest()[:16]}"


def content_digest(path: Path, size: int) -> str:
    """Returns the SHA-256 of a file's size, its first and last MiB and 62 blocks of 16 KiB between. Hashing whole files
    of a hundred gigabytes would take minutes. Raises OSError."""
    total = hashlib.sha256(str(size).encode())
    with os.fdopen(open_regular(path), "rb") as file:
        for begin, length in _places(size):
            file.seek(begin)
            total.update(file.read(length))
    return total.hexdigest()


def _places(size: int) -> Iterable[tuple[int, int]]:
    """Yields (offset, length) of the parts of a file that `content_digest` hashes. A small file is one part."""
    if size <= 2 * _MIB + _PLACES * _PIECE:
        yield 0, size
        return
    yield 0, _MIB
    for place in range(1, _PLACES + 1):
        yield _MIB + (size - 2 * _MIB - _PIECE) * place // (_PLACES + 1), _PIECE
    yield size - _MIB, _MIB
