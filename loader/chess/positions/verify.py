"""The work of `loader verify` and `loader dump`: checking and printing files and pipes of positions. Damage is never
skipped silently (I8)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from loader.chess.positions.file import ChunkCheck
from loader.chess.positions.input import Source, SourceChunk, ignore_progress
from loader.errors import DataError
from loader.formats.file_tools import IllegalEntries, VerifyResult
from loader.formats.format import OnProgress
from loader.formats.parallel import map_in_order


def verify(source: Source, threads: int = 1, on_progress: OnProgress = ignore_progress) -> VerifyResult:
    """Decodes every entry of a source, up to the first damage, and counts legal and illegal ones. The source must be
    opened with the rule COUNTED."""

    def judge(piece: SourceChunk) -> ChunkCheck:
        file, chunk = piece
        return file.check_chunk(chunk)

    def chunks() -> Iterator[ChunkCheck]:
        for chunk, check_chunk in enumerate(map_in_order(judge, source.chunks(), threads)):
            yield check_chunk
            on_progress(source.offset(chunk + 1), source.size)
        source.check_end()

    return _verdict(str(source.path), chunks())


def dump(source: Source, limit: int | None = None) -> Iterator[bytes]:
    """Yields the entries of a source as blocks of whole text lines, one line an entry, `limit` entries at most. Raises
    DataError at damage, after the entries before the damage."""
    left = limit
    if left == 0:
        return
    for file, chunk in source.chunks():
        for block in file.lines(chunk, left):
            left = None if left is None else left - block.count(b"\n")
            yield block
        if left == 0:
            return
    source.check_end()


def _verdict(file: str, chunks: Iterable[ChunkCheck]) -> VerifyResult:
    """Sums up the numbers of all chunks into a verdict on the file, up to the first damage. Damage may be part of a
    chunk's numbers or be raised by the iterator."""
    entries, kinds = 0, dict[str, IllegalEntries]()
    damage: DataError | None = None
    try:
        for chunk in chunks:
            entries += chunk.entries
            for illegal in chunk.illegal:
                entries += illegal.entries
                before = kinds.get(illegal.kind)
                kinds[illegal.kind] = replace(before, entries=before.entries + illegal.entries) if before else illegal
            if chunk.damage is not None:
                raise chunk.damage
    except DataError as error:
        damage = error
    if damage is not None:
        return VerifyResult(file, False, entries, damage.offset, damage.reason, tuple(kinds.values()))
    return VerifyResult(file, not kinds, entries, illegal=tuple(kinds.values()))
