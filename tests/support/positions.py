"""Files of positions in every format that has a codec, made of the project's own sample."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from loader import _native
from loader.chess.positions.entry import Entry, entry_of
from loader.chess.positions.inputs import entries
from tests.support.paths import DATA, VALIDATION

VECTORS = DATA / "vectors"
SUFFIXES = {
    "bulletformat": ".bf",
    "marlinformat": ".marlin",
    "montyvalue": ".montyvalue",
    "packedsfen": ".psv",
    "text": ".txt",
    "viriformat": ".viri",
}
FORMATS = tuple(SUFFIXES)
GAMES = ("viriformat", "montyvalue")
HEADERS = {"viriformat": 32, "montyvalue": 43}
RECORDS = {"bulletformat": 32, "marlinformat": 32, "packedsfen": 40}


def codec(name: str) -> _native.Codec:
    found: _native.Codec = getattr(_native, name)()
    return found


@cache
def sample(count: int) -> tuple[Entry, ...]:
    """The sample's first entries."""
    return tuple(itertools.islice(entries(VALIDATION), count))


def encode(name: str, read: Iterable[Entry]) -> bytes:
    writer = codec(name).make_writer()
    for entry in read:
        writer.add(entry.fen, entry.move, entry.score, entry.ply, entry.result)
    writer.finish()
    return writer.take()


def open_path(name: str, path: Path) -> _native.EntryFile:
    return _native.open_text(path) if name == "text" else _native.open_entries(codec(name), path)


def read_file(name: str, path: Path) -> list[Entry]:
    """Of a good file."""
    file, lines = open_path(name, path), []
    for chunk in range(file.num_chunks):
        walk = _native.ChunkWalk(file, chunk)
        lines += walk.lines(1 << 30).decode().splitlines()
        assert walk.fault is None
    return [entry_of(line) for line in lines]


def rewritten(name: str, path: Path, into: str) -> bytes:
    """A file converted, without Python in between."""
    file, writer = open_path(name, path), codec(into).make_writer()
    for chunk in range(file.num_chunks):
        fault = _native.ChunkWalk(file, chunk).copy_to(writer)
        assert fault is None, fault
    writer.finish()
    return writer.take()
