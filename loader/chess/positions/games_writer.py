"""Encodes games as they are played, and merges them at the end into chunks of the usual size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

from loader import _native
from loader.chess.positions.entry import Entry
from loader.chess.positions.file import raise_fault
from loader.chess.positions.format import named_format
from loader.formats.errors import Fault


def encode(chain: Iterable[Entry], format: str) -> bytes:
    """Encodes the entries of a game as a complete small file of the format. Raises ValueError if the format can't store
    one of the entries."""
    writer = named_format(format).make_writer()
    for entry in chain:
        writer.add(entry.fen, entry.move, entry.score, entry.ply, entry.result)
    writer.finish()
    return writer.take()


def rechunk(path: Path, format: str) -> Iterator[bytes]:
    """Copies a file that consists of many small chunks into chunks of the usual size. Yields the new file's bytes,
    about 1 MiB at a time. Raises DataError at damage."""
    codec = named_format(format).codec
    writer, file = codec.make_writer(), _native.open_entries(codec, path)
    for chunk in range(file.num_chunks):
        raise_fault(cast("Fault | None", _native.ChunkWalk(file, chunk).copy_to(writer)))
        if closed := writer.take():
            yield closed
    writer.finish()
    yield writer.take()
