"""Files of positions looked into: verify, dump. Damage is never skipped silently (I8)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from loader import _native
from loader.chess.positions.format import PositionFormat
from loader.chess.positions.opening import LEFT_OUT, open_file
from loader.chess.positions.reader import LINES_AT_ONCE, fault_behind, judge_chunk, raise_fault
from loader.chess.positions.verdict import Judged, verdict
from loader.formats.format import OnProgress, Verdict
from loader.formats.parallel import map_chunks


def verify(found: PositionFormat, path: Path, threads: int, progress: OnProgress | None) -> Verdict:
    """Reads and judges every entry of a file, up to the first damage."""

    def chunks() -> Iterator[Judged]:
        file = open_file(found, path, illegal=LEFT_OUT)
        for chunk, judged in enumerate(map_chunks(partial(judge_chunk, file), file.num_chunks, threads)):
            yield judged
            _tell(progress, file, chunk)

    return verdict(str(path), chunks())


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
