"""An index of the chunks in a file of games, saved beside it, because the format itself has no borders to jump to.

Finding chunks reads the whole file, a gigabyte a second. For files of 64 MiB and more the offsets are therefore saved
as `.NAME.borders`: a line of JSON that identifies the file, then the offsets as uint64, little endian.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from loader.errors import DataChangedError
from loader.files.identity import DataFile
from loader.files.part import read_part
from loader.files.regular import open_regular
from loader.files.whole_file import write_atomically

log = logging.getLogger(__name__)

MIN_NBYTES = 64 << 20  # size of a file whose borders are saved
VERSION = 2
_ENDS = 1 << 16  # bytes at the beginning and at the end of a file whose checksums identify it
_MAX_INDEX_NBYTES = 1 << 30  # bytes of an index at most


@dataclass
class Borders:
    """The offsets in bytes at which the chunks of a file begin."""

    borders: list[int] | None  # None: there is no index


@contextmanager
def saved_borders(name: str, file: DataFile) -> Iterator[Borders]:
    """Yields the chunk borders from the index of `file`, or None if the index is missing or belongs to other content.
    When the context ends, saves the borders that the caller has set."""
    if file.size < MIN_NBYTES:
        yield Borders(None)
        return
    index = file.path.with_name(f".{file.path.name}.borders")
    identity = _identify_content(name, file)
    saved = _read_index(index, identity)
    borders = Borders(saved)
    yield borders
    if borders.borders and borders.borders != saved:
        _write_index(index, identity, borders.borders)


def _identify_content(name: str, file: DataFile) -> dict[str, Any]:
    """Returns a description of the file's content, for the JSON line of its index: size, time of change, checksums of
    both ends."""
    ends = ((0, min(_ENDS, file.size)), (max(0, file.size - _ENDS), file.size))
    try:
        sums = [zlib.crc32(read_part(file, begin, end, may_grow=True)) for begin, end in ends]
    except (OSError, DataChangedError):  # the opening of the file reports the error
        sums = []
    return {"version": VERSION, "format": name, "size": file.size, "modified": file.modified, "ends": sums}


def _read_index(index: Path, identity: dict[str, Any]) -> list[int] | None:
    """Returns the borders that an index holds, or None if it is missing, damaged, or of a file with another
    identity."""
    try:
        fd = open_regular(index, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(fd, "rb") as opened:
            line = opened.readline(4096)
            data = opened.read(_MAX_INDEX_NBYTES)
        header = json.loads(line)
        borders = np.frombuffer(data, "<u8")
    except (OSError, ValueError):
        return None
    if not isinstance(header, dict) or header.pop("sum", None) != zlib.crc32(data) or header != identity:
        return None
    return [int(border) for border in borders]


def _write_index(index: Path, identity: dict[str, Any], borders: list[int]) -> None:
    """Writes an index. Failures are logged only, because the index can be made again."""
    data = np.array(borders, "<u8").tobytes()
    line = json.dumps(identity | {"sum": zlib.crc32(data)}).encode() + b"\n"
    try:
        if os.path.lexists(index) and not _is_index(index):
            raise FileExistsError(errno.EEXIST, "something else has the name")
        write_atomically(index, line + data)
    except OSError as error:
        log.warning("%s: not written (%s): the games are looked for at each start", index, error.strerror or error)


def _is_index(path: Path) -> bool:
    """Tells whether a file is an index, of whatever file. Only an index may be overwritten by another one."""
    try:
        with os.fdopen(open_regular(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as opened:
            header = json.loads(opened.readline(4096))
    except (OSError, ValueError):
        return False
    return isinstance(header, dict) and {"version", "ends", "sum"} <= header.keys()
