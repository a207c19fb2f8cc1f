"""Small binpack files for runs: chunks of the bundled sample's games, cut so that there are several."""

from __future__ import annotations

import struct
from functools import cache
from itertools import islice
from pathlib import Path

from loader import _native
from loader.chess.positions.inputs import entries
from tests.support.paths import VALIDATION

_SCORE = 8 + 26  # of a chunk's first entry: behind the header, 24 bytes of position and 2 of move


@cache
def chunks(count: int, entries_each: int = 300) -> tuple[bytes, ...]:
    """Returns so many good chunks, header and payload."""
    writer = _native.binpack().make_writer()
    made: list[bytes] = []
    for number, entry in enumerate(islice(entries(VALIDATION), count * entries_each), 1):
        writer.add(entry.fen, entry.move, entry.score, entry.ply, entry.result)
        if number % entries_each == 0:
            writer.finish()
            made.append(writer.take())
    assert len(made) == count
    return tuple(made)


def other_chunk(chunk: bytes) -> bytes:
    """A good chunk of the same length with another score in its first entry."""
    (stored,) = struct.unpack_from(">H", chunk, _SCORE)
    return chunk[:_SCORE] + struct.pack(">H", stored ^ 0x40) + chunk[_SCORE + 2 :]


def make_files(folder: Path) -> list[Path]:
    """Two files of five chunks."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces = chunks(10)
    files = [folder / "a.binpack", folder / "b.binpack"]
    for number, file in enumerate(files):
        file.write_bytes(b"".join(pieces[5 * number : 5 * number + 5]))
    return files
