"""Inputs read once and looked into, as the formats do it with files: verify, dump."""

from __future__ import annotations

from collections.abc import Iterator

from loader.chess.positions.input import Piece, Source, Tick, silent
from loader.chess.positions.verdict import Judged, verdict
from loader.formats.format import Verdict
from loader.formats.parallel import map_in_order


def verify(source: Source, threads: int = 1, tick: Tick = silent) -> Verdict:
    """Reads and judges every entry, up to the first damage, of what was opened with LEFT_OUT."""

    def judge(piece: Piece) -> Judged:
        file, chunk = piece
        return file.judged(chunk)

    def chunks() -> Iterator[Judged]:
        for chunk, judged in enumerate(map_in_order(judge, source.chunks(), threads)):
            yield judged
            tick(source.offset(chunk + 1), source.size)
        source.check_end()

    return verdict(str(source.path), chunks())


def dump(source: Source, limit: int | None = None) -> Iterator[bytes]:
    """Blocks of whole lines, one line an entry. Raises DataError at damage, after the entries before it."""
    left = limit
    for file, chunk in source.chunks():
        blocks = file.lines(chunk)
        while left != 0 and (block := next(blocks, None)):
            lines = block.splitlines(keepends=True)[:left]
            left = None if left is None else left - len(lines)
            yield b"".join(lines)
        if left == 0:
            return
    source.check_end()
