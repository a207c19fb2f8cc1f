"""Inputs read once and looked into, as the formats do it with files: verify, dump."""

from __future__ import annotations

from collections.abc import Iterator

from loader.chess.tools.source import Piece, Source, Tick, silent
from loader.errors import DataError
from loader.formats.format import Verdict
from loader.formats.parallel import map_in_order


def verify(source: Source, threads: int = 1, tick: Tick = silent) -> Verdict:
    """Reads every entry, up to the first damage."""
    name, entries = str(source.path), 0

    def count(piece: Piece) -> tuple[int, DataError | None]:
        file, chunk = piece
        return file.counted(chunk)

    try:
        for chunk, (read, damage) in enumerate(map_in_order(count, source.chunks(), threads)):
            entries += read
            if damage is not None:
                raise damage
            tick(source.offset(chunk + 1), source.size)
        source.check_end()
    except DataError as damage:
        return Verdict(name, False, entries, damage.offset, damage.reason)
    return Verdict(name, True, entries)


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
