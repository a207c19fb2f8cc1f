"""Files of positions looked into: verify, dump. Damage is never skipped silently (I8)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from loader import _native
from loader.chess.files.format import PositionFormat
from loader.chess.files.opening import open_file
from loader.chess.files.reader import LINES_AT_ONCE, fault_behind, raise_fault
from loader.errors import DataError
from loader.formats.faults import Fault
from loader.formats.format import OnProgress, Verdict
from loader.formats.parallel import map_chunks


def verify(found: PositionFormat, path: Path, threads: int, progress: OnProgress | None) -> Verdict:
    """Reads every entry of a file, up to the first damage."""
    name = str(path)
    try:
        file = open_file(found, path)
    except DataError as error:
        return Verdict(name, False, 0, error.offset, error.reason)

    def count(chunk: int) -> tuple[int, Fault | None]:
        walk = _native.ChunkWalk(file, chunk)
        return walk.count(), fault_behind(walk)

    entries = 0
    for chunk, (read, fault) in enumerate(map_chunks(count, file.num_chunks, threads)):
        entries += read
        if fault is not None:
            return Verdict(name, False, entries, fault[2], fault[1])
        _tell(progress, file, chunk)
    return Verdict(name, True, entries)


def dump(found: PositionFormat, path: Path, limit: int | None) -> Iterator[bytes]:
    """Blocks of whole lines, one line an entry. Raises DataError at damage, after the entries before it."""
    file = open_file(found, path)
    left = limit
    for chunk in range(file.num_chunks):
        if left == 0:
            return
        walk = _native.ChunkWalk(file, chunk)
        while lines := walk.lines(LINES_AT_ONCE if left is None else min(left, LINES_AT_ONCE)):
            if left is not None:
                left -= lines.count(b"\n")
            yield lines
        if left != 0:
            raise_fault(fault_behind(walk))


def _tell(progress: OnProgress | None, file: _native.EntryFile, chunk: int) -> None:
    if progress is not None:
        progress(file.offset(chunk + 1) if chunk + 1 < file.num_chunks else file.size, file.size)
