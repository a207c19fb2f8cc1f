"""Fingerprints that tell files apart without reading all of them: for commands that go on with work begun before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from loader.files.identity import DataFile
from loader.files.part import read_part

_ENDS = 1 << 16  # bytes of a file's beginning and of its end


def content_sample(file: DataFile, *, may_grow: bool) -> str:
    """Digest of a file's beginning, middle and end. Raises DataChangedError, OSError."""
    whole = hashlib.sha256()
    for begin in (0, max(0, file.size - _ENDS) // 2, max(0, file.size - _ENDS)):
        whole.update(read_part(file, begin, min(begin + _ENDS, file.size), may_grow=may_grow))
    return whole.hexdigest()[:8]


def fingerprint(files: Sequence[DataFile]) -> str:
    """Digest of names, sizes, times of the last change, beginnings and ends. Raises DataChangedError, OSError."""
    whole = hashlib.sha256()
    for file in files:
        whole.update(json.dumps([str(file.path.absolute()), file.size, file.modified]).encode())
        whole.update(read_part(file, 0, min(_ENDS, file.size), may_grow=False))
        whole.update(read_part(file, max(0, file.size - _ENDS), file.size, may_grow=False))
    return f"{len(files)}, {whole.hexdigest()[:16]}"
